"""Do the two segments pull the policy the same way? Cosine and norms of their gradients (method section 4).

The loss is the policy gradient at the policy that sampled (ratio 1, nothing clipped), token mean over all learnable tokens:

    L_s = - sum over tokens of segment s of A_t * log p_t / number of learnable tokens
    cos(grad L_TOOL, grad L_SUMMARY),  |grad L_TOOL|,  |grad L_SUMMARY|

The whole gradient is the sum of the two. A gradient of 0 has no direction: its cosine is None.
"""

from typing import Any

import numpy as np
import torch

from slca.credit import METHODS, SegmentAdvantages, Settings, spread
from slca.diagnosis.records import Recorded
from slca.errors import DataError
from slca.records import Rollout, Segment
from slca.training.padding import ragged_logprobs

_ROWS = 8
"""Rollouts in one backward pass."""


def gradients(model: Any, recorded: Recorded, settings: Settings, method: str) -> dict[str, float | None]:
    """``{"cosine", "norm_tool", "norm_summary"}`` of ``model`` under ``method``. Raises DataError without token ids."""
    if not recorded.rollouts:
        raise DataError("Gradients need rollouts with token ids; give rollouts of this package.")
    advantages = METHODS[method](recorded.groups, settings)
    # Credit per call is left out: what is compared is what the two segments' rewards do.
    per_token = spread(SegmentAdvantages(advantages.tool, advantages.summary), recorded.labels, recorded.ids)
    learnable = sum(label != Segment.ENV for labels in recorded.labels for label in labels)
    parts = {s: _gradient(model, recorded.rollouts, per_token, s, learnable) for s in (Segment.TOOL, Segment.SUMMARY)}
    tool, summary = parts[Segment.TOOL], parts[Segment.SUMMARY]
    norms = float(tool.norm()), float(summary.norm())
    cosine = float(tool @ summary) / (norms[0] * norms[1]) if min(norms) > 0 else None
    return {"cosine": cosine, "norm_tool": norms[0], "norm_summary": norms[1]}


def _gradient(
    model: Any, rollouts: tuple[Rollout, ...], advantages: np.ndarray, segment: Segment, learnable: int
) -> torch.Tensor:
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    model.zero_grad()
    for start in range(0, len(rollouts), _ROWS):
        part = rollouts[start : start + _ROWS]
        ids, mask, width = _padded(part)
        logprobs, _ = ragged_logprobs(model, ids, mask, width, len(part), entropy=False)
        weights = torch.zeros(len(part), width)
        for row, rollout in enumerate(part):
            chosen = torch.tensor(rollout.labels) == segment
            weights[row, : len(rollout.labels)] = torch.from_numpy(advantages[start + row, : len(rollout.labels)]) * chosen
        loss = -(logprobs * weights.to(logprobs.device)).sum() / learnable
        loss.backward()  # type: ignore[no-untyped-call]
    whole = torch.cat([torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in parameters])
    model.zero_grad()
    return whole.double()


def _padded(rollouts: tuple[Rollout, ...]) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Ids and mask (B, P + T), prompts padded on the left and completions on the right, and T."""
    left = max(len(rollout.prompt_ids) for rollout in rollouts)
    width = max(len(rollout.completion_ids) for rollout in rollouts)
    ids = torch.zeros(len(rollouts), left + width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, rollout in enumerate(rollouts):
        tokens = (*rollout.prompt_ids, *rollout.completion_ids)
        first = left - len(rollout.prompt_ids)
        ids[row, first : first + len(tokens)] = torch.tensor(tokens, dtype=torch.long)
        mask[row, first : first + len(tokens)] = 1
    return ids, mask, width
