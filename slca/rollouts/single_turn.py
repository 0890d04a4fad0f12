"""One assistant turn for each of many prompts: what single-turn benchmarks ask for. Same sampler and parser as rollouts."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from slca.policy.model import Policy
from slca.rollouts.sampler import TokenBatch, sample_turns

_BATCH = 16


@torch.no_grad()
def answer(
    policy: Policy, prompts: Sequence[Sequence[int]], max_tokens: int, progress: Callable[[int], None]
) -> list[str | None]:
    """Greedy replies, markers included; None for a prompt that leaves no room in the policy's context."""
    texts: list[str | None] = [None] * len(prompts)
    fitting = [index for index, prompt in enumerate(prompts) if len(prompt) < policy.max_positions]
    # Prompts of similar length share a batch, so that little of it is padding.
    fitting.sort(key=lambda index: (len(prompts[index]), index))
    progress(len(prompts) - len(fitting))
    for start in range(0, len(fitting), _BATCH):
        rows = fitting[start : start + _BATCH]
        batch = TokenBatch(policy.model, [prompts[row] for row in rows])
        limits = [min(max_tokens, policy.max_positions - len(prompts[row])) for row in rows]
        turns = sample_turns(batch, [np.empty(0)] * len(rows), limits, 0.0, policy.format.end_id)
        for row, turn in zip(rows, turns, strict=True):
            texts[row] = policy.format.decode(turn.ids[:-1] if turn.ended else turn.ids)
        progress(len(rows))
    return texts
