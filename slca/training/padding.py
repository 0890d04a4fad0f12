"""Log-probs without computing padding.

TRL pads a batch to its longest prompt plus its longest completion and runs the model over the whole rectangle; with ragged tool-calling
rollouts most of it is padding. Here rows of similar length share a chunk, each chunk is cut to the columns it uses, and the results
are put back where TRL expects them. Attention masks padding anyway, so no number that enters the loss changes.
"""

from collections.abc import Callable
from typing import Any

import torch

PerToken = tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]


def in_chunks(
    compute: Callable[..., PerToken], model: Any, ids: torch.Tensor, mask: torch.Tensor, completion: int, rows: int, **options: Any
) -> PerToken:
    """What ``compute`` (TRL's ``_get_per_token_logps_and_entropies``) gives, from chunks of ``rows`` rows.

    ids, mask: (B, P + T), prompts padded on the left and completions on the right. completion: T. Returns log-probs and entropies
    (B, T), 0 on padding.
    """
    used = mask.bool()
    first = used.int().argmax(dim=1)
    last = used.shape[1] - used.flip(1).int().argmax(dim=1)
    prompt = used.shape[1] - completion
    order = sorted(range(len(ids)), key=lambda row: (int(last[row] - first[row]), row))
    logps = ids.new_zeros(len(ids), completion, dtype=torch.float32)
    entropies = torch.zeros_like(logps)
    auxiliary = None
    for start in range(0, len(order), rows):
        chunk = torch.tensor(order[start : start + rows], device=ids.device)
        left, right = int(first[chunk].min()), max(int(last[chunk].max()), prompt + 1)
        keep = right - prompt
        part, entropy, auxiliary = compute(model, ids[chunk, left:right], mask[chunk, left:right], keep, **options)
        logps = logps.index_put((chunk[:, None], torch.arange(keep, device=ids.device)), part.float())
        if entropy is not None:
            entropies = entropies.index_put((chunk[:, None], torch.arange(keep, device=ids.device)), entropy.float())
    return logps, entropies if options.get("compute_entropy") else None, auxiliary
