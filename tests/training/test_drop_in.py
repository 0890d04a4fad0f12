"""The trainer in somebody else's TRL script: it changes the advantages, and nothing else."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from trl import GRPOConfig, GRPOTrainer

import slca
from slca import SegmentLockedGRPOTrainer
from slca.credit import METHODS, Settings
from slca.errors import ParamsError
from slca.policy.model import Policy
from slca.training.trainer import CreditedBatch
from slca.work import MarkComplete

GROUP = 4
WORDS = ["book a room", "what is new", "turn it off", "how far is it", "call me", "stop"]


def even(completion_ids: list[list[int]], **_: Any) -> list[float]:
    """1 or 0: in groups of four, TRL's float32 and our double arithmetic then give the same float32 advantage."""
    return [float(sum(ids) % 2 == 0) for ids in completion_ids]


def small(completion_ids: list[list[int]], **_: Any) -> list[float]:
    return [float(np.mean(ids) / 300) for ids in completion_ids]


def config(folder: Path, **changes: Any) -> GRPOConfig:
    settings: dict[str, Any] = {
        "output_dir": str(folder), "per_device_train_batch_size": 2 * GROUP, "num_generations": GROUP, "max_steps": 10,
        "max_completion_length": 12, "learning_rate": 1e-3, "beta": 0.0, "bf16": False, "use_cpu": True, "report_to": [],
        "gradient_checkpointing": False, "disable_tqdm": True, "save_strategy": "no", "logging_steps": 1, "seed": 5,
    }  # fmt: skip
    return GRPOConfig(**(settings | changes))


def script(policy: Policy, trainer: type[GRPOTrainer], folder: Path, changes: dict[str, Any] | None = None, **more: Any) -> Any:
    """A TRL training script; ``trainer`` and the arguments in ``more`` are all that differs."""
    arguments: dict[str, Any] = {"reward_funcs": [even]} | more
    made = trainer(
        model=arguments.pop("model", None) or copy.deepcopy(policy.model),
        args=config(folder, **(changes or {})),
        train_dataset=Dataset.from_dict({"prompt": WORDS}),
        processing_class=policy.format.tokenizer,
        **arguments,
    )
    return made


def weights(trainer: GRPOTrainer) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in trainer.model.state_dict().items()}


@pytest.mark.slow
def test_with_one_segment_kind_slca_is_stock_grpo_bit_for_bit_after_ten_steps(policy: Policy, tmp_path: Path) -> None:
    """TRL's epsilon is 1e-4. Each completion is a single run of sampled tokens, so its only segment is SUMMARY."""
    stock = script(policy, GRPOTrainer, tmp_path / "stock")
    stock.train()
    locked = script(
        policy, SegmentLockedGRPOTrainer, tmp_path / "locked", reward_segments=["summary"], segments="last_run",
        credit=Settings(eps=1e-4),
    )  # fmt: skip
    locked.train()
    before = policy.model.state_dict()
    moved = [name for name, value in weights(stock).items() if not torch.equal(value, before[name])]
    assert len(moved) > 3
    for name, value in weights(stock).items():
        assert torch.equal(value, weights(locked)[name]), name


def test_the_trainer_is_found_at_the_package_s_top_and_nothing_else_is() -> None:
    assert slca.SegmentLockedGRPOTrainer is SegmentLockedGRPOTrainer
    with pytest.raises(AttributeError, match="Trainer2"):
        slca.Trainer2  # noqa: B018


def test_each_reward_reaches_the_tokens_of_its_segment_alone(policy: Policy, tmp_path: Path) -> None:
    batches: list[CreditedBatch] = []
    trainer = script(
        policy, SegmentLockedGRPOTrainer, tmp_path, {"max_steps": 1, "reward_weights": [1.0, 2.0]}, reward_funcs=[even, small],
        reward_segments=["tool", "summary"], segments="last_run", on_batch=batches.append,
    )  # fmt: skip
    trainer.train()
    (batch,) = batches
    # Single turns are SUMMARY: the tool reward is there, but reaches no token.
    assert len(set(batch.groups.tool.tolist())) > 1 and not batch.groups.has_tool.any()
    expected = METHODS["slca"](batch.groups, Settings())
    for row, (labels, advantages) in enumerate(zip(batch.labels, batch.advantages, strict=True)):
        assert set(labels) == {2}
        assert set(advantages) == {float(np.float32(expected.summary[row]))}
    (logged,) = [row for row in trainer.state.log_history if "loss" in row]
    assert logged["credit/presence_summary"] == 1.0 and logged["credit/presence_tool"] == 0.0


def test_a_completion_without_a_reward_for_a_segment_is_masked(policy: Policy, tmp_path: Path) -> None:
    def sometimes(completion_ids: list[list[int]], **_: Any) -> list[float | None]:
        return [None if row == 0 else float(row) for row in range(len(completion_ids))]

    batches: list[CreditedBatch] = []
    trainer = script(
        policy, SegmentLockedGRPOTrainer, tmp_path, {"max_steps": 1}, reward_funcs=[even, sometimes],
        reward_segments=["tool", "summary"], segments="last_run", on_batch=batches.append,
    )  # fmt: skip
    trainer.train()
    assert batches[0].groups.scorable.tolist() == [False] + [True] * 7
    assert set(batches[0].advantages[0]) == {0.0} and set(batches[0].advantages[1]) != {0.0}


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"reward_segments": ["tool"], "estimator": "ppo"}, "estimator 'ppo' is not known"),
        ({"reward_segments": ["calls"]}, "reward_segments holds 'calls'"),
        ({"reward_segments": ["tool", "summary"], "segments": "last_run"}, r"2 entries for 1 reward functions \(even\)"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, Any], fault: str, policy: Policy, tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match=fault):
        script(policy, SegmentLockedGRPOTrainer, tmp_path, **arguments)


@pytest.mark.slow
@pytest.mark.parametrize("loss_type", ["grpo", "dapo", "bnpo", "dr_grpo", "cispo"])
def test_every_loss_that_takes_an_advantage_per_token_trains_with_kl(policy: Policy, loss_type: str, tmp_path: Path) -> None:
    policy.model.save_pretrained(tmp_path / "start")  # TRL loads the reference of the KL term from there
    trainer = script(
        policy, SegmentLockedGRPOTrainer, tmp_path, {"max_steps": 2, "beta": 0.04, "loss_type": loss_type},
        model=str(tmp_path / "start"),
        reward_funcs=[even, small], reward_segments=["summary", "summary"], segments="last_run",
    )  # fmt: skip
    trainer.train()
    logged = [row for row in trainer.state.log_history if "loss" in row]
    assert len(logged) == 2 and all(np.isfinite(row["loss"]) and np.isfinite(row["kl"]) for row in logged)
    assert any(not torch.equal(value, policy.model.state_dict()[name]) for name, value in weights(trainer).items())


@pytest.mark.slow
def test_lora_accumulation_two_iterations_and_resuming_equal_the_uninterrupted_run_bit_for_bit(
    policy: Policy, tmp_path: Path
) -> None:
    """A generation serves two accumulated micro-batches in each of two iterations: two optimizer steps between generations."""
    changes = {
        "per_device_train_batch_size": GROUP, "gradient_accumulation_steps": 2, "num_iterations": 2, "max_steps": 8,
        "save_strategy": "steps", "save_steps": 4, "lr_scheduler_type": "constant",
    }  # fmt: skip

    def make(folder: Path, steps: int) -> Any:
        return script(
            policy, SegmentLockedGRPOTrainer, folder, changes | {"max_steps": steps}, reward_funcs=[even, small],
            reward_segments=["tool", "summary"], segments="last_run", callbacks=[MarkComplete()],
            peft_config=LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"),
        )  # fmt: skip

    whole = make(tmp_path / "whole", 8)
    whole.train()
    make(tmp_path / "cut", 4).train()
    resumed = make(tmp_path / "cut", 8)
    resumed.train(resume_from_checkpoint=str(tmp_path / "cut" / "checkpoint-4"))
    adapters = {name: value for name, value in weights(whole).items() if "lora" in name}
    assert adapters and any(value.abs().sum() > 0 for name, value in adapters.items() if "lora_B" in name)
    for name, value in adapters.items():
        assert torch.equal(value, weights(resumed)[name]), name
