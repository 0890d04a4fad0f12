"""Log-probs of groups with the prompt computed once: its tokens, then the completions side by side behind it, in one row.

Members of a group have the same prompt, which in tool calling is most of what a model reads. In the packed row each completion
sees the prompt and itself, at the positions that it has behind the prompt alone, so every number is that of a row of its own up
to rounding, and so is the gradient: the sum over members that backward takes through the prompt is the sum that
rows of their own would give. Nothing is padding, and logits are computed behind the prompt alone.

The mask has a number for each pair of tokens, so a pack is limited to ``_PACK_TOKENS`` behind its prompt; a larger group takes
several, each with the prompt again.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from slca.errors import ParamsError

_PACK_TOKENS = 4096


def refuse_unshareable(model: Any) -> None:
    """Raise ParamsError for a model whose attention does not take a mask of all pairs of tokens as it is."""
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    windowed = getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
    if config._attn_implementation not in ("sdpa", "eager") or kinds != {"full_attention"} or windowed:
        raise ParamsError(
            f"train.share_prompts must be off for {type(model).__name__}: it needs full attention in every layer, computed by "
            f"sdpa or eager, not {config._attn_implementation} with {', '.join(sorted(kinds))}."
        )


def shared_logprobs(
    model: Any, ids: torch.Tensor, mask: torch.Tensor, completion: int, entropy: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """As ``slca.training.padding.ragged_logprobs``, with rows that have the same prompt computed together."""
    width = ids.shape[1] - completion
    used = mask.bool()
    lengths = used[:, width:].sum(dim=1).tolist()
    logprobs = torch.zeros(len(ids), completion, device=ids.device)
    entropies = torch.zeros_like(logprobs) if entropy else None
    groups: dict[tuple[int, ...], list[int]] = {}
    for row in range(len(ids)):
        if lengths[row]:
            groups.setdefault(tuple(ids[row, :width][used[row, :width]].tolist()), []).append(row)
    for prompt, members in groups.items():
        for rows in _packs(members, lengths):
            completions = [ids[row, width : width + lengths[row]] for row in rows]
            part, uncertainty = _packed(model, torch.tensor(prompt, device=ids.device), completions, entropy)
            row_of = torch.cat([torch.full_like(own, row) for row, own in zip(rows, completions, strict=True)])
            column = torch.cat([torch.arange(len(own), device=ids.device) for own in completions])
            logprobs = logprobs.index_put((row_of, column), part)
            if entropies is not None and uncertainty is not None:
                entropies[row_of, column] = uncertainty
    return logprobs, entropies


def _packs(rows: Sequence[int], lengths: Sequence[int]) -> Iterator[list[int]]:
    pack: list[int] = []
    for row in rows:
        if pack and sum(lengths[other] for other in (*pack, row)) > _PACK_TOKENS:
            yield pack
            pack = []
        pack.append(row)
    yield pack


def _packed(
    model: Any, prompt: torch.Tensor, completions: Sequence[torch.Tensor], entropy: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-probs of all completion tokens one after another, (sum of lengths,), and their entropies.

    prompt: (P,), at least one token. A completion's last token predicts nothing and stays outside.
    """
    inputs = [own[:-1] for own in completions]
    first = len(prompt)
    # Which completion each token belongs to; the prompt's are those of every completion.
    owner = torch.cat([torch.full_like(own, number) for number, own in enumerate([prompt, *inputs])])
    positions = torch.cat([torch.arange(first), *(first + torch.arange(len(own)) for own in inputs)]).to(prompt.device)
    place = torch.arange(len(owner), device=prompt.device)
    allowed = (place <= place[:, None]) & ((owner == 0) | (owner == owner[:, None]))
    added = torch.zeros(allowed.shape, dtype=model.dtype, device=prompt.device)
    added = added.masked_fill_(~allowed, torch.finfo(model.dtype).min)[None, None]
    output = model(
        input_ids=torch.cat([prompt, *inputs])[None],
        attention_mask=added,
        position_ids=positions[None],
        use_cache=False,
        logits_to_keep=len(owner) - first + 1,  # from the prompt's last token on, which predicts every first token
    )
    starts = torch.tensor([0, *(len(own) for own in inputs)]).cumsum(0)[:-1].tolist()
    predicts = [
        torch.tensor([0, *range(start + 1, start + len(own))], device=prompt.device)
        for start, own in zip(starts, completions, strict=True)
    ]
    source = torch.cat(predicts)
    distribution = torch.log_softmax(output.logits[0].float(), dim=-1)
    chosen = distribution[source, torch.cat(list(completions))]
    if not entropy:
        return chosen, None
    with torch.no_grad():
        uncertainty = -(distribution.exp() * distribution).sum(dim=-1)[source]
    return chosen, uncertainty
