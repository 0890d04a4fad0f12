"""The sampler against plain full forward passes and `generate`."""

import numpy as np
import pytest
import torch

from slca.policy.model import Policy
from slca.rollouts.sampler import TokenBatch, sample_turns

PROMPTS = [[11, 12, 13], [20, 21, 22, 23, 24, 25, 26], [11, 12, 13], [30]]


def full_logits(policy: Policy, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return policy.model(torch.tensor([ids])).logits[0, -1].float()


@torch.no_grad()
def test_ragged_growth_keeps_every_row_equal_to_a_full_forward_pass(policy: Policy) -> None:
    batch = TokenBatch(policy.model, PROMPTS)
    rows = [list(prompt) for prompt in PROMPTS]
    for tokens in ([[5], [6, 7, 8], [], [9, 10]], [[], [1], [2, 3, 4, 5, 6], []]):
        batch.extend(tokens)
        rows = [row + more for row, more in zip(rows, tokens, strict=True)]
        for i, row in enumerate(rows):
            torch.testing.assert_close(batch.logits[i], full_logits(policy, row), atol=1e-5, rtol=0)


@torch.no_grad()
def test_selected_rows_go_on_undisturbed(policy: Policy) -> None:
    batch = TokenBatch(policy.model, PROMPTS)
    batch.extend([[5], [6, 7], [8], [9]])
    batch.select([3, 1])
    batch.extend([[1, 2, 3], [4]])
    torch.testing.assert_close(batch.logits[0], full_logits(policy, [30, 9, 1, 2, 3]), atol=1e-5, rtol=0)
    torch.testing.assert_close(batch.logits[1], full_logits(policy, [*PROMPTS[1], 6, 7, 4]), atol=1e-5, rtol=0)


@torch.no_grad()
def test_greedy_equals_generate_token_for_token(policy: Policy) -> None:
    batch = TokenBatch(policy.model, PROMPTS)
    turns = sample_turns(batch, [np.empty(0)] * 4, [24] * 4, 0.0, policy.format.end_id)
    for prompt, turn in zip(PROMPTS, turns, strict=True):
        output = policy.model.generate(
            torch.tensor([prompt]), max_new_tokens=24, do_sample=False, eos_token_id=policy.format.end_id, pad_token_id=0
        )
        assert turn.ids == output[0, len(prompt) :].tolist()


@torch.no_grad()
def test_recorded_logprobs_equal_recomputed_ones(policy: Policy) -> None:
    uniforms = np.random.default_rng(0).random((4, 24))
    turns = sample_turns(TokenBatch(policy.model, PROMPTS), list(uniforms), [24, 10, 24, 1], 1.0, policy.format.end_id)
    assert [len(turn.ids) for turn in turns][1::2] == [10, 1]
    for prompt, turn in zip(PROMPTS, turns, strict=True):
        logits = policy.model(torch.tensor([prompt + turn.ids])).logits[0, len(prompt) - 1 : -1].float()
        expected = torch.log_softmax(logits, -1).gather(1, torch.tensor(turn.ids)[:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(turn.logprobs), expected, atol=1e-4, rtol=0)


@torch.no_grad()
def test_a_row_is_sampled_alike_alone_and_in_a_batch(policy: Policy) -> None:
    uniforms = list(np.random.default_rng(1).random((4, 16)))
    together = sample_turns(TokenBatch(policy.model, PROMPTS), uniforms, [16] * 4, 1.0, policy.format.end_id)
    for i, prompt in enumerate(PROMPTS):
        (alone,) = sample_turns(TokenBatch(policy.model, [prompt]), uniforms[i : i + 1], [16], 1.0, policy.format.end_id)
        assert alone.ids == together[i].ids


@torch.no_grad()
def test_sampling_follows_the_distribution(policy: Policy) -> None:
    """The first token of 4,000 rows, against the model's own probabilities: total variation below 3 standard deviations."""
    rows = 4000
    batch = TokenBatch(policy.model, [PROMPTS[0]] * rows)
    probabilities = torch.softmax(batch.logits[0].double(), -1).numpy()
    uniforms = np.random.default_rng(2).random((rows, 1))
    turns = sample_turns(batch, list(uniforms), [1] * rows, 1.0, policy.format.end_id)
    counts = np.bincount([turn.ids[0] for turn in turns], minlength=len(probabilities))
    deviations = (counts - rows * probabilities) / np.sqrt(rows * probabilities * (1 - probabilities))
    assert np.sqrt(np.mean(deviations**2)) == pytest.approx(1.0, abs=0.15)


@torch.no_grad()
def test_temperature_enters_the_recorded_logprob(policy: Policy) -> None:
    batch = TokenBatch(policy.model, [PROMPTS[1]])
    expected = torch.log_softmax(batch.logits[0] / 0.5, -1)
    (turn,) = sample_turns(batch, [np.array([0.3])], [1], 0.5, policy.format.end_id)
    assert turn.logprobs[0] == pytest.approx(expected[turn.ids[0]].item(), abs=1e-6)
