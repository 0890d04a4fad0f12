"""Log-probs of ragged rollouts without computing padding, or the vocabulary where nothing was sampled.

TRL pads a batch to its longest prompt plus its longest completion and runs the model over the whole rectangle; with tool-calling
rollouts most of it is padding. Here rows of similar length share a chunk, each chunk is cut to the columns it uses, positions
count real tokens only, and logits are computed for completions alone. Attention masks padding anyway: the numbers are TRL's
up to rounding.

The distributions over the vocabulary are the largest tensors of all (8,192 positions of 152,064 entries are 5 GB in fp32, and
several are alive at once), so long completions take them a piece at a time and make them again in the backward pass.
"""

from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

PIECE = 1024
"""Positions whose distributions over the vocabulary exist at once, in completions that are longer."""


def ragged_logprobs(
    model: Any, ids: torch.Tensor, mask: torch.Tensor, completion: int, rows: int, entropy: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Natural-log probabilities of the completion tokens, and entropies (nats) if asked for, each (B, T), 0 on padding.

    ids, mask: (B, P + T), prompts padded on the left and completions on the right. completion: T. rows: rows in a chunk.
    """
    used = mask.bool()
    first = used.int().argmax(dim=1)
    last = used.shape[1] - used.flip(1).int().argmax(dim=1)
    prompt = used.shape[1] - completion
    order = sorted(range(len(ids)), key=lambda row: (int(last[row] - first[row]), row))
    logprobs = torch.zeros(len(ids), completion, device=ids.device)
    entropies = torch.zeros_like(logprobs) if entropy else None
    for start in range(0, len(order), rows):
        chunk = torch.tensor(order[start : start + rows], device=ids.device)
        left, right = int(first[chunk].min()), max(int(last[chunk].max()), prompt + 1)
        where = (chunk[:, None], torch.arange(right - prompt, device=ids.device))
        part, uncertainty = _completion_logprobs(model, ids[chunk, left:right], mask[chunk, left:right], right - prompt)
        logprobs = logprobs.index_put(where, part)
        if entropies is not None:
            entropies[where] = uncertainty
    return logprobs, entropies


def _completion_logprobs(model: Any, ids: torch.Tensor, mask: torch.Tensor, keep: int) -> tuple[torch.Tensor, torch.Tensor]:
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
    output = model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False, logits_to_keep=keep + 1)
    logits, chosen = output.logits[:, :-1], ids[:, -keep:]
    if keep <= PIECE:
        return _chosen(logits, chosen)
    pieces = [
        checkpoint(_chosen, logits[:, start : start + PIECE], chosen[:, start : start + PIECE], use_reentrant=False)
        for start in range(0, keep, PIECE)
    ]
    return torch.cat([piece[0] for piece in pieces], dim=1), torch.cat([piece[1] for piece in pieces], dim=1)


def _chosen(logits: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities of ``ids`` (B, T), and entropies without gradient."""
    distribution = torch.log_softmax(logits.float(), dim=-1)
    chosen = distribution.gather(2, ids[:, :, None]).squeeze(2)
    with torch.no_grad():
        entropy = -(distribution.exp() * distribution).sum(dim=-1)
    return chosen, entropy
