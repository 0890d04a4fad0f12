"""A group's prompt computed once: the numbers and gradients of rows of their own, and whole groups in every pass."""

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import roll_out
from transformers import Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig

from slca.errors import ParamsError
from slca.policy.model import Policy
from slca.training.on_policy import OnPolicyTrainer
from slca.training.padding import ragged_logprobs
from slca.training.sharing import refuse_unshareable, shared_logprobs

Batch = tuple[torch.Tensor, torch.Tensor, int]


def batch(prompts: list[int], members: list[tuple[int, int]], seed: int) -> Batch:
    """ids and mask of rows (prompt, completion length); prompts: their lengths."""
    generator = torch.Generator().manual_seed(seed)
    texts = [torch.randint(9, 250, (length,), generator=generator) for length in prompts]
    width, completion = max(prompts), max(length for _, length in members)
    ids = torch.zeros(len(members), width + completion, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, (prompt, length) in enumerate(members):
        ids[row, width - prompts[prompt] : width] = texts[prompt]
        ids[row, width : width + length] = torch.randint(9, 250, (length,), generator=generator)
        mask[row, width - prompts[prompt] : width + length] = 1
    return ids, mask, completion


def outcome(
    model: torch.nn.Module, compute: Callable[[], tuple[torch.Tensor, torch.Tensor]], used: torch.Tensor
) -> list[torch.Tensor]:
    """Log-probs and entropies where ``used``, and the gradient of a weighted sum of the log-probs for all weights."""
    model.zero_grad()
    logprobs, entropies = compute()
    weights = torch.randn(used.shape, generator=torch.Generator().manual_seed(1))
    (logprobs * used * weights).sum().backward()
    return [logprobs.detach() * used, entropies * used, *(parameter.grad.clone() for parameter in model.parameters())]


@settings(max_examples=20)
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 10)), min_size=1, max_size=7),
    st.sampled_from(["sdpa", "eager"]),
)
def test_shared_prompts_change_neither_numbers_nor_gradients(
    policy: Policy, prompts: list[int], members: list[tuple[int, int]], attention: str
) -> None:
    model = copy.deepcopy(policy.model).double()  # log-probs are float32 on both sides
    model.config._attn_implementation = attention
    ids, mask, completion = batch(prompts, [(prompt % len(prompts), length) for prompt, length in members], seed=len(members))
    used = mask[:, -completion:].float()
    alone = outcome(model, lambda: ragged_logprobs(model, ids, mask, completion, 1, entropy=True), used)
    shared = outcome(model, lambda: shared_logprobs(model, ids, mask, completion, entropy=True), used)
    for expected, got in zip(alone, shared, strict=True):
        torch.testing.assert_close(got, expected, atol=2e-5, rtol=1e-4)


def test_a_group_beyond_the_limit_takes_several_packs(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    from slca.training import sharing

    ids, mask, completion = batch([6], [(0, 5), (0, 9), (0, 3), (0, 8)], seed=0)
    whole = shared_logprobs(policy.model, ids, mask, completion, entropy=False)[0]
    lengths: list[int] = []
    forward = policy.model.forward
    monkeypatch.setattr(sharing, "_PACK_TOKENS", 14)
    monkeypatch.setattr(
        policy.model, "forward", lambda **given: (lengths.append(given["input_ids"].shape[1]), forward(**given))[1]
    )
    parts = shared_logprobs(policy.model, ids, mask, completion, entropy=False)[0]
    assert lengths == [6 + 4 + 8, 6 + 2 + 7]
    torch.testing.assert_close(parts, whole)


def trained(policy: Policy, folder: Path, passes: int, share: bool) -> tuple[list[dict[str, float]], list[int]]:
    """What two steps logged, and how many rows each pass through the model had."""
    group, groups = 4, 4
    config = GRPOConfig(
        output_dir=str(folder), per_device_train_batch_size=group * groups // passes, gradient_accumulation_steps=passes,
        num_generations=group, max_steps=2, report_to=[], use_cpu=True, bf16=False, disable_tqdm=True, save_strategy="no", seed=3,
        gradient_checkpointing=False, max_completion_length=64, loss_type="dapo", learning_rate=1e-3, logging_steps=1,
        max_grad_norm=1e9,
    )  # fmt: skip
    trainer = OnPolicyTrainer(
        model=copy.deepcopy(policy.model), args=config, processing_class=policy.format.tokenizer, estimator="slca",
        train_dataset=Dataset.from_dict({"prompt": [f"task-{'x' * i}" for i in range(6)]}), roll_out=roll_out,
        share_prompts=share,
    )  # fmt: skip
    rows: list[int] = []
    trainer.model.register_forward_pre_hook(lambda _, __, given: rows.append(len(given["input_ids"])), with_kwargs=True)
    trainer.train()
    return [row for row in trainer.state.log_history if "grad_norm" in row], rows


def test_gradients_may_be_accumulated_over_whole_groups(policy: Policy, tmp_path: Path) -> None:
    plain, _ = trained(policy, tmp_path / "plain", passes=1, share=False)
    shared, rows = trained(policy, tmp_path / "shared", passes=4, share=True)
    assert rows == [1] * 8  # two steps of four groups, each in one packed row: TRL's shuffle did not tear them apart
    assert len(plain) == len(shared) == 2
    for expected, got in zip(plain, shared, strict=True):
        assert got["grad_norm"] == pytest.approx(expected["grad_norm"], rel=1e-3) and got["grad_norm"] > 0.01
        assert got["loss"] == pytest.approx(expected["loss"], abs=1e-4)


def test_models_that_mask_by_themselves_are_refused(policy: Policy) -> None:
    refuse_unshareable(policy.model)
    small = {"vocab_size": 64, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    windowed = Qwen2Config(**small, num_key_value_heads=2, use_sliding_window=True, sliding_window=8, max_window_layers=1)
    with pytest.raises(ParamsError, match=r"share_prompts must be off for Qwen2ForCausalLM.*sliding_attention"):
        refuse_unshareable(Qwen2ForCausalLM(windowed))
    refuse_unshareable(Qwen2ForCausalLM(Qwen2Config(**small, num_key_value_heads=2)))
