"""Made-up scored rollouts, drawn from their names, and a training run over them: shared by tests and their child processes."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from datasets import Dataset
from trl import GRPOConfig

from slca.files import derive_seed
from slca.policy.model import load_policy, prepare_torch
from slca.records import FinishReason, Reward, Rollout, Segment, TaskKind
from slca.training.on_policy import OnPolicyTrainer, Scored
from slca.training.trainer import CreditedBatch


def scored(task_id: str, member: int, step: int, tool: float | None = None, summary: float | None = None) -> Scored:
    """A TOOL turn, a tool result, a SUMMARY turn, of lengths and rewards drawn from the rollout's name."""
    rng = np.random.default_rng(derive_seed(task_id, member, step))
    lengths = [int(n) for n in rng.integers(2, 9, size=3)]
    labels = [s for s, n in zip((Segment.TOOL, Segment.ENV, Segment.SUMMARY), lengths, strict=True) for _ in range(n)]
    ids = tuple(int(i) for i in rng.integers(9, 250, size=len(labels)))
    prompt = tuple(int(i) for i in np.random.default_rng(derive_seed(task_id)).integers(9, 250, size=5 + len(task_id)))
    name = f"{task_id}@{step}/{member}"
    rollout = Rollout(
        name, task_id, member, "v", prompt, ids, tuple(labels), tuple([-1.0] * len(ids)), (), FinishReason.STOP, "state"
    )
    score_tool = float(rng.random()) if tool is None else tool
    score_summary = float(rng.random()) if summary is None else summary
    reward = Reward(
        name, task_id, member, TaskKind.SINGLE, score_tool, score_summary, "", True, True, True,
        1, 1, 1, 1, 1, 1, 1, True, (0,), (1.0,), 1, 1.0, 0, 0, 1, 0, 0, 1, rollout.sampled_tokens, FinishReason.STOP,
    )  # fmt: skip
    return Scored(rollout, reward)


def roll_out(tasks: Sequence[str], members: Sequence[int], step: int) -> list[Scored]:
    return [scored(task, member, step) for task, member in zip(tasks, members, strict=True)]


def train(model: Path, output: Path, per_device: int, group: int, steps: int) -> None:
    """Train for ``steps`` and write this process's advantages by rollout, and a fingerprint of the weights."""
    prepare_torch(1)
    policy = load_policy(model)
    credited: dict[str, list[float]] = {}

    def on_batch(batch: CreditedBatch) -> None:
        for row, advantages in zip(batch.rows, batch.advantages, strict=True):
            credited[row["scored"].rollout.rollout_id] = list(advantages)

    config = GRPOConfig(
        output_dir=str(output), per_device_train_batch_size=per_device, num_generations=group, max_steps=steps, report_to=[],
        use_cpu=True, bf16=False, disable_tqdm=True, save_strategy="no", seed=3, gradient_checkpointing=False,
        max_completion_length=64,
    )  # fmt: skip
    trainer = OnPolicyTrainer(
        model=policy.model, args=config, train_dataset=Dataset.from_dict({"prompt": [f"task-{'x' * i}" for i in range(6)]}),
        processing_class=policy.format.tokenizer, estimator="slca", roll_out=roll_out, on_batch=on_batch,
    )  # fmt: skip
    trainer.train()
    head = trainer.accelerator.unwrap_model(trainer.model).get_input_embeddings().weight
    result = {"advantages": credited, "processes": trainer.accelerator.num_processes, "norm": float(head.double().norm())}
    output.mkdir(parents=True, exist_ok=True)
    (output / f"process-{trainer.accelerator.process_index}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    train(Path(sys.argv[1]), Path(sys.argv[2]), *(int(number) for number in sys.argv[3:6]))
