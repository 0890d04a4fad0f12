"""Where the time of a GRPO step goes on SmolLM2-135M-Instruct (tests/smollm.py), and how far it is from the arithmetic alone.

    python -m pytest tests/benches/test_bench_step.py --benchmark-only -m "slow or not slow" -s

What a step does for one group of 4, by the pipeline's parts: rollouts, rewards, log-probs with backward, optimizer (once a step).
Log-probs on the same rollouts: as one padded rectangle, as TRL computes them; with rows of similar length together, without
padding (``slca.training.padding``); with each prompt once (``slca.training.sharing``), in float32 and in bf16. Processor time of
one thread, so that other programs disturb little. The floor of forward and backward is 6 operations for every weight and token
that it meets (the vocabulary for completion tokens alone, prompts once), at the throughput that a float32 matrix product of the
model's own shape reaches in the same run.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import smollm
import torch

from slca import params as p
from slca.hierr import score
from slca.policy.model import Policy, load_policy, prepare_torch
from slca.records import Rollout
from slca.rollouts.engine import Engine, Request
from slca.sgls import stage as schemas
from slca.tables import read_tasks
from slca.tasks import stage as tasks_stage
from slca.training.padding import ragged_logprobs
from slca.training.sharing import shared_logprobs

pytestmark = [pytest.mark.slow, pytest.mark.bench]

MEMBERS = 4
PARAMS = p.Params(
    tasks=p.Tasks(train=8, test=8, unseen_tools=8),
    rollouts=p.Rollouts(tasks=1, group_size=MEMBERS, max_turns=3, max_turn_tokens=64),
    train=p.Train(tasks_per_step=1),
)


def padded(rollouts: Sequence[Rollout], pad: int) -> tuple[torch.Tensor, torch.Tensor, int]:
    """ids and mask as TRL hands them over: prompts padded on the left, completions on the right."""
    prompt, completion = max(len(r.prompt_ids) for r in rollouts), max(len(r.completion_ids) for r in rollouts)
    ids = torch.full((len(rollouts), prompt + completion), pad)
    mask = torch.zeros_like(ids)
    for row, rollout in enumerate(rollouts):
        first, last = prompt - len(rollout.prompt_ids), prompt + len(rollout.completion_ids)
        ids[row, first:last] = torch.tensor(rollout.prompt_ids + rollout.completion_ids)
        mask[row, first:last] = 1
    return ids, mask, completion


def floor(policy: Policy, rollouts: Sequence[Rollout]) -> float:
    """Seconds of forward and backward if nothing but the products of weights and tokens took time."""
    config = policy.model.config
    head = config.vocab_size * config.hidden_size
    layers = policy.model.num_parameters() - head  # the embedding is the head
    completions = sum(len(r.completion_ids) for r in rollouts)
    prompts = sum(map(len, {r.prompt_ids for r in rollouts}))
    left, right = torch.randn(512, config.hidden_size), torch.randn(config.hidden_size, config.intermediate_size)
    took = min(_seconds(lambda: [left @ right for _ in range(20)])[0] for _ in range(5)) / 20
    rate = 2 * 512 * right.numel() / took
    return 6 * (layers * (prompts + completions) + head * completions) / rate


def _seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = run()
    return time.process_time() - start, result


def test_parts_of_a_step_and_the_floor(benchmark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = torch.get_num_threads()
    prepare_torch(1)
    schemas.run(PARAMS, tmp_path)
    tasks_stage.run(PARAMS, tmp_path)
    policy = load_policy(smollm.model_folder())
    tasks = read_tasks(tmp_path / "data" / "tasks" / "train.parquet")[: PARAMS.train.tasks_per_step]
    engine = Engine(policy, PARAMS.rollouts, PARAMS.simulator, seed=0)
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=1e-6)
    took: dict[str, float] = {}

    def step() -> None:
        requests = [Request(task, member) for task in tasks for member in range(MEMBERS)]
        took["rollouts"], rollouts = _seconds(lambda: engine.run(requests))
        by_id = {task.task_id: task for task in tasks}
        took["rewards"], _ = _seconds(lambda: [score(by_id[r.task_id], r, PARAMS.rewards) for r in rollouts])
        took["floor"] = floor(policy, rollouts)
        ids, mask, completion = padded(rollouts, policy.format.pad_id)
        ones = torch.ones_like(mask)  # padding is computed as if it were none
        advantages = torch.randn(len(ids), completion) * mask[:, -completion:]
        ways: dict[str, Callable[[slice], Any]] = {
            "rectangle": lambda of: ragged_logprobs(policy.model, ids[of], ones[of], completion, MEMBERS, entropy=True),
            "no padding": lambda of: ragged_logprobs(policy.model, ids[of], mask[of], completion, MEMBERS, entropy=True),
            "prompts once": lambda of: shared_logprobs(policy.model, ids[of], mask[of], completion, entropy=True),
        }
        ways["prompts once, bf16"] = torch.autocast("cpu", torch.bfloat16)(ways["prompts once"])
        for name, compute in ways.items():
            optimizer.zero_grad()
            forward = backward = 0.0
            for group in range(len(tasks)):  # one after the other, as with train.micro_batch = group_size: memory is for one
                of = slice(group * MEMBERS, (group + 1) * MEMBERS)
                seconds, (logprobs, _) = _seconds(partial(compute, of))
                forward += seconds
                backward += _seconds((logprobs * advantages[of]).sum().backward)[0]
            took.update({f"{name}: forward": forward, f"{name}: backward": backward})
        took["optimizer"], _ = _seconds(optimizer.step)
        took["tokens"] = float(mask.sum())
        took["sampled"] = float(sum(r.sampled_tokens for r in rollouts))

    try:
        benchmark.pedantic(step, rounds=1)
    finally:
        torch.set_num_threads(before)
    benchmark.extra_info.update(took)
    with capsys.disabled():
        print(f"\n{len(tasks)} groups of {MEMBERS}: {took['tokens']:.0f} tokens, {took['sampled']:.0f} of them sampled")
        for name, seconds in took.items():
            if name not in ("tokens", "sampled"):
                print(f"{name:<28}{seconds:8.2f} s")
        for name in ("rectangle", "no padding", "prompts once", "prompts once, bf16"):
            both = took[f"{name}: forward"] + took[f"{name}: backward"]
            rest = sum(took[part] for part in ("rollouts", "rewards", "optimizer"))
            print(
                f"{name}: forward and backward {both:.1f} s, {both / took['floor']:.2f} times the floor; step {both + rest:.1f} s"
            )
