"""What segment-locked credit costs in a training step: the time spent in what is added to TRL's trainer, as a share of the step.

    python -m pytest tests/benches/test_bench_credit.py --benchmark-only -m "slow or not slow" -s

Both times are of the same steps of one run, so what else the machine does hardly matters. The model has the default profile's
shape; 64 rollouts of 40 to 160 tokens in groups of 8 come from memory, so that generation, which is the same for both, is left
out of the step and the share is larger than in a real run.
"""

from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from made_up import scored
from pytest_benchmark.fixture import BenchmarkFixture
from trl import GRPOConfig, GRPOTrainer

from slca import params as p
from slca.files import derive_seed
from slca.policy.model import Policy, new_model
from slca.records import Segment
from slca.training.on_policy import OnPolicyTrainer, Scored

GROUP, TASKS, STEPS = 8, 8, 6


def long(task: str, member: int, step: int) -> Scored:
    """A rollout of a realistic length: two TOOL turns with results between, and a reply."""
    rng = np.random.default_rng(derive_seed("long", task, member, step))
    lengths = [int(n) for n in rng.integers(8, 32, size=5)]
    kinds = (Segment.TOOL, Segment.ENV, Segment.TOOL, Segment.ENV, Segment.SUMMARY)
    labels = tuple(int(kind) for kind, length in zip(kinds, lengths, strict=True) for _ in range(length))
    ids = tuple(int(n) for n in rng.integers(9, 400, size=len(labels)))
    short = scored(task, member, step)
    rollout = type(short.rollout)(
        **{**vars(short.rollout), "completion_ids": ids, "labels": labels, "logprobs": (-1.0,) * len(ids)}
    )
    return Scored(rollout, short.reward)


class Timed(OnPolicyTrainer):
    """Takes the time of a step, of TRL's part of preparing its batch, and of the whole of it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.added: list[float] = []
        self.steps: list[float] = []

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        started = perf_counter()
        loss: torch.Tensor = super().training_step(*args, **kwargs)
        self.steps.append(perf_counter() - started)
        return loss

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        inner = 0.0
        stock = GRPOTrainer._generate_and_score_completions

        def timed(trainer: GRPOTrainer, rows: list[dict[str, Any]]) -> dict[str, Any]:
            nonlocal inner
            started = perf_counter()
            output: dict[str, Any] = stock(trainer, rows)
            inner = perf_counter() - started
            return output

        GRPOTrainer._generate_and_score_completions = timed
        started = perf_counter()
        try:
            return super()._generate_and_score_completions(inputs)
        finally:
            self.added.append(perf_counter() - started - inner)
            GRPOTrainer._generate_and_score_completions = stock


@pytest.mark.slow
@pytest.mark.parametrize("method", ["grpo", "slca", "slca_call"])
def test_share_of_a_step_that_credit_takes(policy: Policy, method: str, tmp_path: Path, benchmark: BenchmarkFixture) -> None:
    torch.manual_seed(0)
    model = new_model(p.Warmstart(), p.Warmstart().vocab_size, policy.format.pad_id, policy.format.end_id)
    config = GRPOConfig(
        output_dir=str(tmp_path), per_device_train_batch_size=GROUP * TASKS, num_generations=GROUP, max_steps=STEPS,
        report_to=[], use_cpu=True, bf16=False, disable_tqdm=True, save_strategy="no", gradient_checkpointing=False,
        max_completion_length=256,
    )  # fmt: skip
    trainer = Timed(
        model=model, args=config, train_dataset=Dataset.from_dict({"prompt": [f"task-{i}" for i in range(TASKS)]}),
        processing_class=policy.format.tokenizer, estimator=method,
        roll_out=lambda tasks, members, step: [long(task, member, step) for task, member in zip(tasks, members, strict=True)],
    )  # fmt: skip
    benchmark.pedantic(trainer.train, rounds=1, iterations=1)
    shares = [added / step for added, step in zip(trainer.added[1:], trainer.steps[1:], strict=True)]
    benchmark.extra_info |= {"share_median": median(shares), "share_max": max(shares)}
    print(
        f"\n{method}: {1000 * median(trainer.added[1:]):.1f} ms of {1000 * median(trainer.steps[1:]):.0f} ms a step, "
        f"share {100 * median(shares):.2f} % (most {100 * max(shares):.2f} %), without generation"
    )
