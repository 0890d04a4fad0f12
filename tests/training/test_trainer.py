"""The trainer's contract with TRL: per-token advantages reach the loss, padding costs nothing, resuming changes nothing."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from made_up import scored
from trl import GRPOConfig, GRPOTrainer

from slca.credit import Settings
from slca.errors import ParamsError
from slca.policy.model import Policy
from slca.records import Segment
from slca.training import padding
from slca.training.on_policy import OnPolicyTrainer, Scored
from slca.training.padding import ragged_logprobs
from slca.training.trainer import CreditedBatch, SegmentLockedGRPOTrainer
from slca.work import MarkComplete

GROUP = 4


def config(folder: Path, **changes: object) -> GRPOConfig:
    settings: dict[str, object] = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 2 * GROUP,
        "num_generations": GROUP,
        "max_steps": 4,
        "learning_rate": 1e-2,
        "lr_scheduler_type": "constant",
        "loss_type": "dapo",
        "beta": 0.0,
        "temperature": 1.0,
        "top_k": 0,
        "bf16": False,
        "use_cpu": True,
        "gradient_checkpointing": False,
        "report_to": [],
        "disable_tqdm": True,
        "logging_steps": 1,
        "save_steps": 2,
        "seed": 3,
    }
    return GRPOConfig(**(settings | changes))


def make(policy: Policy, folder: Path, method: str = "slca", roll_out: object = None, **changes: object) -> OnPolicyTrainer:
    def default(tasks: Sequence[str], members: Sequence[int], step: int) -> list[Scored]:
        return [scored(task, member, step) for task, member in zip(tasks, members, strict=True)]

    batches: list[CreditedBatch] = []
    trainer = OnPolicyTrainer(
        model=copy.deepcopy(policy.model),
        args=config(folder, **changes),
        train_dataset=Dataset.from_dict({"prompt": [f"task-{'x' * i}" for i in range(6)]}),
        processing_class=policy.format.tokenizer,
        callbacks=[MarkComplete()],
        estimator=method,
        credit=Settings(),
        roll_out=roll_out or default,
        on_batch=batches.append,
    )
    trainer.batches = batches
    return trainer


def scored_of(batch: CreditedBatch) -> list[Scored]:
    return [row["scored"] for row in batch.rows]


def weights(trainer: GRPOTrainer) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in trainer.model.state_dict().items()}


def test_members_are_numbered_within_their_group_and_credit_covers_exactly_the_learnable_tokens(
    policy: Policy, tmp_path: Path
) -> None:
    trainer = make(policy, tmp_path, max_steps=1)
    trainer.train()
    (batch,) = trainer.batches
    assert [entry.rollout.member for entry in scored_of(batch)] == [0, 1, 2, 3] * 2
    for entry, advantages in zip(scored_of(batch), batch.advantages, strict=True):
        assert len(advantages) == len(entry.rollout.completion_ids)
        assert all(a == 0.0 for a, label in zip(advantages, entry.rollout.labels, strict=True) if label == Segment.ENV)
        tool = {a for a, label in zip(advantages, entry.rollout.labels, strict=True) if label == Segment.TOOL}
        assert len(tool) == 1 and tool != {0.0}


def test_the_loss_uses_the_per_token_advantages(policy: Policy, tmp_path: Path) -> None:
    """At ratio 1 TRL's dapo loss is -(sum of advantages on learnable tokens) / (number of learnable tokens)."""
    trainer = make(policy, tmp_path, max_steps=1)
    trainer.train()
    (batch,) = trainer.batches
    total = sum(sum(row) for row in batch.advantages)
    count = sum(entry.rollout.sampled_tokens for entry in scored_of(batch))
    logged = next(row["loss"] for row in trainer.state.log_history if "loss" in row)
    assert logged == pytest.approx(-total / count, abs=1e-6)


@pytest.mark.parametrize("segment", ["tool", "summary"])
def test_flat_rewards_of_one_segment_leave_the_step_to_the_other(policy: Policy, tmp_path: Path, segment: str) -> None:
    """With equal summary rewards, SLCA moves the weights as if SUMMARY tokens had no advantage, and the reverse."""

    def roll_out(tasks: Sequence[str], members: Sequence[int], step: int) -> list[Scored]:
        fixed = {"summary" if segment == "tool" else "tool": 0.5}
        return [scored(task, member, step, **fixed) for task, member in zip(tasks, members, strict=True)]

    trainer = make(policy, tmp_path, roll_out=roll_out, max_steps=1)
    trainer.train()
    own = Segment.TOOL if segment == "tool" else Segment.SUMMARY
    for entry, advantages in zip(scored_of(trainer.batches[0]), trainer.batches[0].advantages, strict=True):
        assert all((a != 0.0) == (label == own) for a, label in zip(advantages, entry.rollout.labels, strict=True))


def test_unscorable_rollouts_get_no_credit(policy: Policy, tmp_path: Path) -> None:
    def roll_out(tasks: Sequence[str], members: Sequence[int], step: int) -> list[Scored]:
        made = [scored(task, member, step) for task, member in zip(tasks, members, strict=True)]
        masked = replace(made[0].reward, tool_score=None, summary_score=None, masked="judge_failure")
        return [Scored(made[0].rollout, masked), *made[1:]]

    trainer = make(policy, tmp_path, roll_out=roll_out, max_steps=1)
    trainer.train()
    assert set(trainer.batches[0].advantages[0]) == {0.0}
    assert any(a != 0.0 for a in trainer.batches[0].advantages[1])


def test_chunks_without_padding_give_the_same_logprobs_and_gradients(policy: Policy, tmp_path: Path) -> None:
    trainer = make(policy, tmp_path)
    torch.manual_seed(0)
    model = trainer.model
    prompt, completion = 12, 20
    ids = torch.randint(9, 250, (6, prompt + completion))
    mask = torch.zeros_like(ids)
    for row, (p, c) in enumerate([(12, 20), (3, 4), (7, 1), (12, 2), (1, 20), (5, 9)]):
        mask[row, prompt - p : prompt + c] = 1
    compute = super(SegmentLockedGRPOTrainer, trainer)._get_per_token_logps_and_entropies
    plain, entropy, _ = compute(model, ids, mask, completion, compute_entropy=True)
    chunked, entropy_chunked = ragged_logprobs(model, ids, mask, completion, 2, entropy=True)
    learnable = mask[:, prompt:].float()
    torch.testing.assert_close(chunked * learnable, plain * learnable, atol=1e-5, rtol=0)
    torch.testing.assert_close(entropy_chunked * learnable, entropy * learnable, atol=1e-5, rtol=0)
    head = model.get_input_embeddings().weight
    (expected,) = torch.autograd.grad((plain * learnable).sum(), head)
    (got,) = torch.autograd.grad((chunked * learnable).sum(), head)
    torch.testing.assert_close(got, expected, atol=1e-3, rtol=1e-4)


def test_distributions_a_piece_at_a_time_change_nothing(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of 3 and less of 8 positions: the same numbers, also of the gradient, which makes them again."""
    torch.manual_seed(0)
    ids, mask = torch.randint(9, 250, (3, 20)), torch.ones(3, 20, dtype=torch.long)
    head = policy.model.get_input_embeddings().weight
    found = []
    for piece in (padding.PIECE, 3):
        monkeypatch.setattr(padding, "PIECE", piece)
        logprobs, entropies = ragged_logprobs(policy.model, ids, mask, 8, 2, entropy=True)
        found.append((logprobs, entropies, *torch.autograd.grad(logprobs.sum(), head)))
    for whole, pieces in zip(*found, strict=True):
        torch.testing.assert_close(pieces, whole, atol=1e-6, rtol=1e-5)


def test_resumed_run_equals_the_uninterrupted_one_bit_for_bit(policy: Policy, tmp_path: Path) -> None:
    whole = make(policy, tmp_path / "whole")
    whole.train()
    first = make(policy, tmp_path / "cut", max_steps=2)
    first.train()
    second = make(policy, tmp_path / "cut")
    second.train(resume_from_checkpoint=str(tmp_path / "cut" / "checkpoint-2"))
    for name, value in weights(whole).items():
        assert torch.equal(value, weights(second)[name]), name
    assert [e.rollout.rollout_id for b in second.batches for e in scored_of(b)] == [
        e.rollout.rollout_id for b in whole.batches[2:] for e in scored_of(b)
    ]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"loss_type": "vespo"}, "loss_type"),
        ({"importance_sampling_level": "sequence"}, "importance_sampling_level"),
        ({"temperature": 0.7}, "temperature"),
        ({"mask_truncated_completions": True}, "mask_truncated_completions"),
        ({"off_policy_mask_threshold": 0.5}, "off_policy_mask_threshold"),
    ],
)
def test_settings_that_do_not_take_per_token_advantages_are_refused(
    policy: Policy, tmp_path: Path, changes: dict[str, object], word: str
) -> None:
    with pytest.raises(ParamsError, match=word):
        make(policy, tmp_path, **changes)
