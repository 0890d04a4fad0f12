"""Sampling tokens for a ragged batch of conversations whose KV cache is kept from turn to turn.

A batch is a rectangle of cache columns; each row marks which columns hold its tokens, so rows may grow by different
amounts and a turn's history is never computed twice. Sampling is by inverse transform: token t of a row is a function of the
model's distribution and of one uniform number that belongs to (row, t) alone. The same rollout therefore comes out
whatever else is in its batch, up to floating-point ties.
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import Cache, DynamicLayer

_SPARE_COLUMNS = 96


class _BufferedLayer(DynamicLayer):  # type: ignore[misc]
    """A dynamic cache layer that grows in place; concatenating at every token would copy the whole cache each time."""

    keys: torch.Tensor
    values: torch.Tensor
    is_initialized: bool
    _buffers: tuple[torch.Tensor, torch.Tensor]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        old = self.get_seq_length()
        new = old + key_states.shape[-2]
        if not self.is_initialized or self._buffers[0].shape[-2] < new or self._buffers[0].shape[0] != key_states.shape[0]:
            batch, heads, _columns, width = key_states.shape
            buffers = key_states.new_empty(2, batch, heads, new + _SPARE_COLUMNS, width)
            if self.is_initialized and old:
                buffers[0, :, :, :old] = self.keys
                buffers[1, :, :, :old] = self.values
            self.device, self.dtype, self.is_initialized = key_states.device, key_states.dtype, True
            self._buffers = (buffers[0], buffers[1])
        for buffer, states in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[:, :, old:new] = states
        self.keys, self.values = self._buffers[0][:, :, :new], self._buffers[1][:, :, :new]
        return self.keys, self.values


class TokenBatch:
    """Rows of tokens, their cache, and each row's next-token logits (rows, vocabulary)."""

    def __init__(self, model: Any, prompts: Sequence[Sequence[int]]) -> None:
        """Compute each distinct prompt once: the members of a group share theirs."""
        self.model = model
        # transformers 5 renames the argument on its way.
        self._cache_argument = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
        distinct = list(dict.fromkeys(tuple(prompt) for prompt in prompts))
        place = {prompt: index for index, prompt in enumerate(distinct)}
        self.cache = Cache(layers=[_BufferedLayer() for _ in range(model.config.num_hidden_layers)])
        self.valid = torch.zeros(len(distinct), 0, dtype=torch.bool, device=model.device)
        self.lengths = torch.zeros(len(distinct), dtype=torch.long, device=model.device)
        self.logits = torch.zeros(len(distinct), model.config.vocab_size, device=model.device)
        self.extend(distinct)
        self.select([place[tuple(prompt)] for prompt in prompts])

    def select(self, rows: Sequence[int]) -> None:
        """Keep (or repeat) the given rows, in the given order."""
        index = torch.tensor(rows, dtype=torch.long, device=self.lengths.device)
        self.cache.batch_select_indices(index)
        self.valid, self.lengths, self.logits = self.valid[index], self.lengths[index], self.logits[index]

    def extend(self, tokens: Sequence[Sequence[int]]) -> None:
        """Append ``tokens[i]`` to row i (none: the row is left as it is) and refresh the logits of the rows that grew."""
        device = self.lengths.device
        width = max(len(row) for row in tokens)
        if not width:
            return
        ids = torch.zeros(len(tokens), width, dtype=torch.long)
        fresh = torch.zeros(len(tokens), width, dtype=torch.bool)
        for i, row in enumerate(tokens):
            if row:
                ids[i, width - len(row) :] = torch.tensor(row, dtype=torch.long)
                fresh[i, width - len(row) :] = True
        ids, fresh = ids.to(device), fresh.to(device)
        positions = (self.lengths[:, None] + fresh.cumsum(1) - 1).clamp(min=0)
        past = self.valid.shape[1]
        self.valid = torch.cat([self.valid, fresh], dim=1)
        # Padding columns are never seen by others; each may see itself, so that no row of the softmax is empty.
        column = torch.arange(past + width, device=device)
        query = column[past:, None]
        allowed = (self.valid[:, None, :] & (column <= query)) | (column == query)
        logits = self._forward(ids, allowed, positions)
        grew = fresh[:, -1]
        self.logits = torch.where(grew[:, None], logits, self.logits)
        self.lengths = self.lengths + fresh.sum(1)

    def _forward(self, ids: torch.Tensor, allowed: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Logits (rows, vocabulary), float32, behind the last column. allowed: (rows, queries, keys), True where attended."""
        mask = torch.zeros(allowed.shape, dtype=self.model.dtype, device=allowed.device)
        mask.masked_fill_(~allowed, torch.finfo(self.model.dtype).min)
        output = self.model(
            input_ids=ids,
            attention_mask=mask[:, None],
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1,
            **{self._cache_argument: self.cache},
        )
        logits: torch.Tensor = output.logits[:, -1].float()
        return logits


@dataclass
class Turn:
    """One sampled assistant turn. ended: it closed with the end-of-turn token, which is in ``ids``."""

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    ended: bool = False


def sample_turns(
    batch: TokenBatch, uniforms: Sequence[np.ndarray], limits: Sequence[int], temperature: float, end_id: int
) -> list[Turn]:
    """Sample one turn for every row; the sampled tokens enter the batch's cache.

    uniforms: per row, numbers in [0, 1), one per token, at least limits[i] of them. limits: tokens at the most per row.
    temperature 0 is greedy. Log-probs are float32 natural logs under the distribution that was sampled from.
    """
    turns = [Turn() for _ in limits]
    draws = torch.from_numpy(np.stack([row[: max(limits)] for row in uniforms])) if temperature else None
    for step in range(max(limits)):
        open_rows = [not turn.ended and len(turn.ids) < limit for turn, limit in zip(turns, limits, strict=True)]
        if not any(open_rows):
            break
        logprobs = torch.log_softmax(batch.logits / temperature if temperature else batch.logits, dim=-1)
        if draws is None:
            tokens = batch.logits.argmax(dim=-1)
        else:
            cumulative = logprobs.double().exp().cumsum(dim=-1)
            target = draws[:, step : step + 1].to(cumulative.device) * cumulative[:, -1:]
            tokens = torch.searchsorted(cumulative, target, right=True).squeeze(1).clamp(max=cumulative.shape[1] - 1)
        chosen = logprobs.gather(1, tokens[:, None]).squeeze(1).tolist()
        sampled = tokens.tolist()
        for row, turn in enumerate(turns):
            if open_rows[row]:
                turn.ids.append(sampled[row])
                turn.logprobs.append(chosen[row])
                turn.ended = sampled[row] == end_id
        batch.extend([[sampled[row]] if is_open else [] for row, is_open in enumerate(open_rows)])
    return turns
