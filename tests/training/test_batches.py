"""How a step divides, with the published numbers; and that the default profile's settings are what they were."""

from pathlib import Path

import pytest
import torch
from trl import GRPOConfig

from slca import params as p
from slca.errors import ParamsError
from slca.training.batches import Batches
from slca.training.config import grpo_config


def params(group: int = 16, **train: object) -> p.Params:
    return p.Params(rollouts=p.Rollouts(group_size=group), train=p.Train(**train))  # type: ignore[arg-type]


def test_the_published_batch_on_eight_devices() -> None:
    """128 tasks * 16 = 2,048 rollouts, four optimizer steps of 512: 64 on each of eight devices, one at a time."""
    published = params(tasks_per_step=128, mini_batch=32, micro_batch=1, steps=248, warmup_steps=3, checkpoint_steps=20)
    assert Batches.of(published, 8) == Batches(processes=8, rollouts=2048, updates=4, micro_batch=1, accumulation=64)
    config = grpo_config(published, 0, Path("w"), 8)
    assert (config.per_device_train_batch_size, config.gradient_accumulation_steps, config.steps_per_generation) == (1, 64, 256)
    assert (config.max_steps, config.warmup_steps, config.save_steps, config.logging_steps) == (992, 12, 80, 4)


@pytest.mark.parametrize(
    ("changes", "processes", "expected"),
    [
        ({}, 1, (128, 1, 128, 1)),
        ({}, 2, (128, 1, 64, 1)),
        ({"mini_batch": 4}, 2, (128, 2, 32, 1)),
        ({"mini_batch": 2, "micro_batch": 8}, 2, (128, 4, 8, 2)),
    ],
)
def test_shares_of_a_step(changes: dict[str, int], processes: int, expected: tuple[int, ...]) -> None:
    batches = Batches.of(params(tasks_per_step=8, **changes), processes)
    assert (batches.rollouts, batches.updates, batches.micro_batch, batches.accumulation) == expected
    assert batches.rollouts == batches.updates * processes * batches.micro_batch * batches.accumulation


@pytest.mark.parametrize(
    ("changes", "processes", "told"),
    [
        ({}, 3, "8 \\* 16 = 128 rollouts .* 3 processes"),
        ({"micro_batch": 3}, 1, "128 in each of 1 processes, which train.micro_batch = 3"),
        ({"mini_batch": 2, "micro_batch": 32}, 2, "train.mini_batch .* 16 in each of 2"),
    ],
)
def test_what_does_not_divide_is_refused(changes: dict[str, int], processes: int, told: str) -> None:
    with pytest.raises(ParamsError, match=told):
        Batches.of(params(tasks_per_step=8, **changes), processes)


def test_the_default_profile_trains_with_the_settings_that_its_results_were_made_with() -> None:
    """Written out as they were before a step could divide: what came since is at a value that changes nothing."""
    config = grpo_config(p.of_profile("default"), 1, Path("work"))
    before = GRPOConfig(
        output_dir="work/checkpoints", seed=1, data_seed=1, max_steps=75, per_device_train_batch_size=64, num_generations=8,
        gradient_accumulation_steps=1, learning_rate=3.0e-4, lr_scheduler_type="constant_with_warmup", warmup_steps=10,
        weight_decay=0.0, max_grad_norm=1.0, beta=0.0, epsilon=0.2, loss_type="dapo", temperature=1.0,
        max_completion_length=1024, gradient_checkpointing=False, bf16=False, use_cpu=not torch.cuda.is_available(),
        save_steps=10, save_total_limit=2, logging_steps=1, report_to=[], disable_tqdm=True,
    )  # fmt: skip
    assert {**config.to_dict(), "ddp_find_unused_parameters": None} == before.to_dict()


def test_every_new_setting_reaches_trl() -> None:
    changed = params(
        precision="bf16", gradient_checkpointing=True, schedule="cosine", weight_decay=0.01, kl=0.001, tasks_per_step=8
    )
    config = grpo_config(p.changed(changed, {"rollouts": {"max_response_tokens": 8192}}, "t"), 0, Path("w"))
    assert config.bf16 and config.gradient_checkpointing and config.lr_scheduler_type == "cosine"
    assert (config.weight_decay, config.beta, config.max_completion_length) == (0.01, 0.001, 8192)
