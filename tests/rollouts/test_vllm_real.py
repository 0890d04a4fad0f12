"""Both generators on vLLM, for real, on a CPU: run by ``test_vllm_generator.py`` in an environment that has vLLM.

The policies are a small warm start, whose rollouts call tools over several turns, and SmolLM2-135M-Instruct.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest
import smollm
import torch
import vllm_on_cpu

from slca import params as p
from slca.policy import warmstart
from slca.policy.model import Policy, load_policy
from slca.records import Rollout, Segment, Task
from slca.rollouts.engine import Engine, Request
from slca.sgls import stage as schemas
from slca.tables import read_tasks
from slca.tasks import stage as tasks
from slca.training import stage
from slca.training.on_policy import OnPolicyTrainer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed"),
]
SIZES = {"tasks": {"train": 800}, "warmstart": {"demonstrations": 1600, "max_positions": 1024}}
ROLLOUTS = {"max_turn_tokens": 64, "max_rows": 16}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small warm start and its tasks, as the stages write them."""
    folder = tmp_path_factory.mktemp("vllm")
    params = p.changed(p.of_profile("smoke"), SIZES, "test")
    for make in (schemas, tasks, warmstart):
        make.run(params, folder)
    return folder


@pytest.fixture(scope="module")
def small(root: Path) -> Policy:
    return load_policy(root / "models" / "warmstart")


@pytest.fixture(scope="module")
def some(root: Path) -> list[Task]:
    return read_tasks(root / "data" / "tasks" / "train.parquet")[:40]


def roll_out(policy: Policy, tasks: Sequence[Task], temperature: float, **settings: Any) -> list[Rollout]:
    rollouts = p.Rollouts(**{**ROLLOUTS, **settings})
    return Engine(policy, rollouts, p.Simulator(), 0, temperature).run([Request(task, 0) for task in tasks])


def ids(rollouts: Sequence[Rollout]) -> list[tuple[int, ...]]:
    return [rollout.completion_ids for rollout in rollouts]


@torch.no_grad()
def logits(model: Any, tokens: Sequence[int]) -> torch.Tensor:
    """(T, vocabulary), by one full pass."""
    return model(torch.tensor([tokens])).logits[0].float()  # type: ignore[no-any-return]


def furthest(model: Any, rollouts: Sequence[Rollout], temperature: float = 1.0) -> float:
    """The largest difference between a log-prob that was recorded at sampling and that of one full pass."""
    gaps = [0.0]
    for rollout in rollouts:
        tokens = torch.tensor([*rollout.prompt_ids, *rollout.completion_ids])
        full = torch.log_softmax(logits(model, tokens.tolist())[:-1] / temperature, -1).gather(1, tokens[1:, None])[:, 0]
        recorded = torch.tensor(rollout.logprobs)
        sampled = torch.tensor(rollout.labels) != Segment.ENV
        gaps.append(float((full[-len(recorded) :] - recorded)[sampled].abs().max()))
    return max(gaps)


def divergences(policy: Policy, ours: Sequence[Rollout], others: Sequence[Rollout]) -> list[float]:
    """Where greedy rollouts part, by how much the likeliest token led there, in logits."""
    gaps = []
    for one, other in zip(ours, others, strict=True):
        if one.completion_ids != other.completion_ids:
            pairs = zip(one.completion_ids, other.completion_ids, strict=False)
            place = next(place for place, (a, b) in enumerate(pairs) if a != b)
            top = logits(policy.model, [*one.prompt_ids, *one.completion_ids[:place]])[-1].topk(2).values
            gaps.append(float(top[0] - top[1]))
    return gaps


def check_greedy(policy: Policy, tasks: Sequence[Task], name: str) -> list[Rollout]:
    ours, others = roll_out(policy, tasks, 0.0), roll_out(policy, tasks, 0.0, generator="vllm")
    gaps = divergences(policy, ours, others)
    print(f"\n{name}: {len(ours) - len(gaps)} of {len(ours)} greedy rollouts are the same; the others part at gaps of {gaps}")
    assert len(gaps) <= 0.05 * len(ours)
    assert max(gaps, default=0.0) < 1e-3  # near-ties
    worst = furthest(policy.model, others)
    print(f"{name}: log-probs at sampling are within {worst:.1e} of a full pass")
    assert worst < 1e-4
    return others


def test_greedy_rollouts_over_several_turns_are_those_of_transformers(small: Policy, some: list[Task]) -> None:
    rollouts = check_greedy(small, some, "small warm start")
    assert sum(len(rollout.steps) > 1 for rollout in rollouts) > 5
    assert len(set(ids(rollouts))) > len(rollouts) / 2


def test_a_sample_depends_on_its_seed_alone(small: Policy, some: list[Task]) -> None:
    first = roll_out(small, some, 0.7, generator="vllm")
    assert ids(roll_out(small, some, 0.7, generator="vllm")) == ids(first)
    assert ids(roll_out(small, some[::-1], 0.7, generator="vllm"))[::-1] == ids(first)
    assert ids(roll_out(small, some[3:9], 0.7, generator="vllm")) == ids(first[3:9])
    assert furthest(small.model, first, 0.7) < 1e-4
    again = [replace(task, task_id=f"other {task.task_id}") for task in some]  # other seeds
    others = roll_out(small, again, 0.7, generator="vllm")
    assert sum(a != b for a, b in zip(ids(others), ids(first), strict=True)) > len(some) / 2


@pytest.fixture
def server(root: Path) -> Iterator[str]:
    """vLLM's own server on the small warm start."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    model = ["--model", str(root / "models" / "warmstart"), "--port", str(port)]
    options = ["--dtype", "float32", "--enforce-eager", "--no-enable-chunked-prefill", "--logprobs-mode", "processed_logprobs"]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *model, *options]
    log = (root / "server.log").open("wb")
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=os.environ)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            assert process.poll() is None, (root / "server.log").read_text(errors="replace")[-3000:]
            try:
                if httpx.get(f"{url}/health").is_success:
                    break
            except httpx.TransportError:
                time.sleep(0.5)
        yield url
    finally:
        process.terminate()
        process.wait(30)
        log.close()


def test_the_server_gives_what_the_engine_in_process_gives(small: Policy, some: list[Task], server: str) -> None:
    some = some[:24]
    for temperature in (0.0, 0.7):
        served = roll_out(small, some, temperature, generator="vllm_server", vllm_url=f"{server}/v1")
        inside = roll_out(small, some, temperature, generator="vllm")
        same = sum(a == b for a, b in zip(ids(served), ids(inside), strict=True))
        print(f"\nserver, temperature {temperature}: {same} of {len(some)} rollouts are those of the engine in process")
        assert same >= 0.95 * len(some)
        assert furthest(small.model, served, temperature or 1.0) < 1e-4


def test_greedy_rollouts_of_a_real_model(some: list[Task]) -> None:
    check_greedy(load_policy(smollm.model_folder()), some[:10], "SmolLM2-135M-Instruct")


def test_training_rolls_out_with_the_weights_of_each_step(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vllm_on_cpu.let_trl_train(monkeypatch)
    start = load_policy(root / "models" / "warmstart").model
    gaps: list[tuple[float, float]] = []

    class Watched(OnPolicyTrainer):
        def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
            output = super()._generate_and_score_completions(inputs)
            rollouts = [row["scored"].rollout for row in inputs]
            gaps.append((furthest(self.model, rollouts), furthest(start, rollouts)))
            return output

    monkeypatch.setattr(stage, "OnPolicyTrainer", Watched)
    changes = {
        "rollouts": {**ROLLOUTS, "generator": "vllm", "group_size": 4},
        "train": {"steps": 3, "tasks_per_step": 4, "learning_rate": 3e-3, "warmup_steps": 0},
        "execution": {"processes": 1},
    }
    params = p.changed(p.changed(p.of_profile("smoke"), SIZES, "test"), changes, "test")
    work = stage.train(params, stage.Run("slca", 0), root, show=False)
    print(f"\ntraining: log-probs at sampling against those of the trainer, and of the warm start: {json.dumps(gaps)}")
    assert len(gaps) == 3
    assert all(own < 1e-3 for own, _ in gaps)
    assert all(stale > 10 * own and stale > 1e-2 for own, stale in gaps[1:])
    assert (work / "records" / "curve.csv").read_text().count("\n") == 4
