"""The generator on transformers: continuous batching with a KV cache that is kept from turn to turn.

Every step, conversations whose next tokens are all known (a new prompt; the results that follow a turn) are computed in one
go, and all others sample one token. A conversation goes on as soon as its results are there; one that ends gives its row to
the next in the queue: no row waits for another, and nothing is computed twice. What a new prompt shares with a conversation
in the cache is copied, so the members of a group cost one prompt.

Sampling is by inverse transform: token t of a conversation is a function of the model's distribution and of one uniform number
that belongs to (seed, t) alone. The same conversation therefore comes out whatever else is generated, up to floating-point
ties.
"""

import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from slca.rollouts.generator import Turn
from slca.rollouts.slots import Slots

_PASS_COST = 32
"""What a forward pass costs beside its tokens, in tokens: padding below it is cheaper than one pass more."""

_PASS_TOKENS = 8192
"""Tokens of one forward pass, padding included, unless a single row has more: bounds its memory."""

_LEAST_SHARED = 8
"""Tokens from which on a copy of them is worth it."""

_BLOCK = 256
"""Uniform numbers drawn at once; also vocabulary entries whose sum is searched before they are."""

_CACHED = 1 << 20
"""Logits that are drawn from at once on a CPU: 4 MiB."""


@dataclass(eq=False)
class _Row:
    """One conversation in slot ``slot``. ids: all its tokens; the first ``cached`` are in the cache. turn: None between turns.

    shared: the tokens that it has in common with all rows of its ``group``.
    """

    key: int
    ids: list[int]
    limit: int
    random: np.random.Generator
    group: int
    shared: int
    uniforms: list[float] = field(default_factory=list)
    sampled: int = 0
    cached: int = 0
    slot: int = -1
    turn: Turn | None = field(default_factory=Turn)

    @property
    def missing(self) -> int:
        """Tokens that are not in the cache: one, the last, of a row that is sampling; more where some were not sampled."""
        return len(self.ids) - self.cached

    def uniform(self) -> float:
        """The number of the token that is sampled next."""
        if self.sampled == len(self.uniforms):
            self.uniforms += self.random.random(_BLOCK).tolist()
        return self.uniforms[self.sampled]


class TransformersGenerator:
    """A ``slca.rollouts.generator.Generator``. temperature 0 is greedy. rows: conversations at once; more wait in order.

    Raises DataError for a model that cannot be computed exactly.
    """

    def __init__(self, model: Any, stop_ids: frozenset[int], temperature: float, rows: int) -> None:
        self.slots = Slots(model)
        self._stop_ids = stop_ids
        self._temperature = temperature
        self._most = rows
        self._queue: deque[_Row] = deque()
        self._rows: list[_Row | None] = []  # by slot; None: the slot is free
        self._by_key: dict[int, _Row] = {}
        self._groups = itertools.count()

    def add(self, key: int, prompt: Sequence[int], limit: int, seed: int) -> None:
        row = _Row(key, list(prompt), limit, np.random.Generator(np.random.Philox(seed)), next(self._groups), len(prompt) - 1)
        self._by_key[key] = row
        self._queue.append(row)

    def go_on(self, key: int, ids: Sequence[int], limit: int) -> None:
        row = self._by_key[key]
        row.ids += ids
        row.limit = limit
        row.turn = Turn()

    def drop(self, key: int) -> None:
        self._rows[self._by_key.pop(key).slot] = None

    @torch.no_grad()
    def step(self) -> list[tuple[int, Turn]]:
        if self._queue:
            self._admit()
        ended: list[tuple[int, Turn]] = []
        active = self._active()
        if wanting := [row for row in active if row.missing > 1]:
            ended = [turn for rows in _passes(wanting, len(active) - len(wanting)) for turn in self._advance(rows)]
            for row in wanting:
                self._borrow(row)
            active = [row for row in self._active() if row.missing == 1]
        self._bring_to_front(active)
        return ended + (self._advance(active) if active else [])

    # Which rows are computed

    def _admit(self) -> None:
        """Let conversations in while there is room."""
        free = [slot for slot, row in enumerate(self._rows) if row is None]
        room = self._most - len(self._rows) + len(free)
        admitted = [self._queue.popleft() for _ in range(min(room, len(self._queue)))]
        for row in admitted:
            row.slot = free.pop(0) if free else len(self._rows)
            self._rows[row.slot : row.slot + 1] = [row]
        self.slots.reserve(len(self._rows))
        for row in admitted:
            self._borrow(row)

    def _active(self) -> list[_Row]:
        """Rows that go on, by slot."""
        return [row for row in self._rows if row is not None and row.turn is not None]

    def _borrow(self, row: _Row) -> None:
        """Copy the longest beginning that a row with a new prompt shares with what another has in the cache."""
        if row.sampled:
            return
        shared, lender = 0, row
        # The row before it first: members of a group are admitted side by side.
        for other in [*reversed(self._rows[: row.slot]), *self._rows[row.slot + 1 :]]:
            if shared == len(row.ids) - 1:
                break
            if other is not None and other.cached:
                common = _common(row.ids, other)
                shared, lender = (common, other) if common > shared else (shared, lender)
        if shared >= row.cached + _LEAST_SHARED:
            self.slots.copy(lender.slot, row.slot, shared)
            row.cached = shared
            if shared == row.shared <= lender.shared:
                row.group = lender.group

    def _bring_to_front(self, rows: list[_Row]) -> None:
        """Give ``rows`` the slots 0, 1, ..., in this order, where a pass reads the cache without copying it."""
        outside = [row for row in rows if row.slot >= len(rows)]
        if outside:
            inside = {row.slot for row in rows}
            for row, slot in zip(outside, (slot for slot in range(len(rows)) if slot not in inside), strict=True):
                self._move(row, slot)
            rows.sort(key=lambda row: row.slot)
        while self._rows and self._rows[-1] is None:
            self._rows.pop()

    def _move(self, row: _Row, slot: int) -> None:
        other = self._rows[slot]
        if other is not None and other.cached and row.cached:
            self.slots.exchange(row.slot, slot, max(row.cached, other.cached))
        elif row.cached:
            self.slots.copy(row.slot, slot, row.cached)
        elif other is not None and other.cached:
            self.slots.copy(slot, row.slot, other.cached)
        self._rows[row.slot], self._rows[slot] = other, row
        if other is not None:
            other.slot = row.slot
        row.slot = slot

    # Computing them

    def _advance(self, rows: Sequence[_Row]) -> list[tuple[int, Turn]]:
        """Compute the missing tokens of ``rows`` and sample one more for each; the turns that ended with it."""
        logits = self.slots.forward(
            [row.slot for row in rows],
            [row.ids[row.cached :] for row in rows],
            [row.cached for row in rows],
            [row.group for row in rows],
            min(row.shared for row in rows),
        )
        tokens, logprobs = draw(logits, [row.uniform() for row in rows], self._temperature)
        ended = []
        for row, token, logprob in zip(rows, tokens, logprobs, strict=True):
            assert row.turn is not None
            row.cached = len(row.ids)
            row.sampled += 1
            row.ids.append(token)
            row.turn.ids.append(token)
            row.turn.logprobs.append(logprob)
            row.turn.ended = token in self._stop_ids
            if row.turn.ended or len(row.turn.ids) >= row.limit:
                ended.append((row.key, row.turn))
                row.turn = None
        return ended


def _passes(wanting: Sequence[_Row], sampling: int) -> Iterator[list[_Row]]:
    """Passes over the tokens of ``wanting`` that were not sampled, rows of similar length together.

    None as long as those are fewer tokens than the ``sampling`` ones of a sampling step: a pass has its price, whatever is in
    it. Of rows with the same prompt one is computed, and lends it to the others.
    """
    alike = {row.key if row.sampled else tuple(row.ids): row for row in reversed(wanting)}
    rows = sorted(alike.values(), key=lambda row: (row.missing, row.slot), reverse=True)
    if sum(row.missing for row in rows) < sampling:
        return
    start = 0
    while start < len(rows):
        longest, padding, end = rows[start].missing, 0, start
        while end < len(rows) and padding <= _PASS_COST and (end + 1 - start) * longest <= max(_PASS_TOKENS, longest):
            padding += longest - rows[end].missing
            end += 1
        yield rows[start:end]
        start = end


def draw(logits: torch.Tensor, uniforms: Sequence[float], temperature: float) -> tuple[list[int], list[float]]:
    """One token for each row of logits (n, vocabulary), and its log-prob under the distribution that it was drawn from.

    By inverse transform: uniforms, in [0, 1), decide; temperature 0 takes the likeliest. Log-probs are natural, float32.
    """
    # On a CPU, as many rows at once as its caches hold.
    rows = max(1, _CACHED // logits.shape[1]) if logits.device.type == "cpu" else len(logits)
    targets = torch.tensor(uniforms, dtype=torch.float64, device=logits.device)[:, None]
    pairs = zip(torch.split(logits, rows), torch.split(targets, rows), strict=True)
    parts = [_draw(part, target, temperature) for part, target in pairs]
    return [token for tokens, _ in parts for token in tokens], [logprob for _, logprobs in parts for logprob in logprobs]


def _draw(logits: torch.Tensor, uniforms: torch.Tensor, temperature: float) -> tuple[list[int], list[float]]:
    """``draw`` with uniforms (n, 1). Sums are float64, over blocks of the vocabulary first, so that it is read once."""
    scaled = logits if temperature in (0.0, 1.0) else logits / temperature
    top, likeliest = scaled.max(dim=-1, keepdim=True)
    weights = torch.nn.functional.pad((scaled - top).exp_(), (0, -scaled.shape[1] % _BLOCK)).view(len(scaled), -1, _BLOCK)
    ends = weights.sum(dim=-1, dtype=torch.float64).cumsum(dim=-1)
    tokens = likeliest
    if temperature:
        target = uniforms * ends[:, -1:]
        block = _first_beyond(ends, target)
        before = torch.nn.functional.pad(ends, (1, 0)).gather(1, block)
        inside = weights.gather(1, block[:, :, None].expand(-1, 1, _BLOCK)).squeeze(1).double().cumsum(dim=-1)
        tokens = block * _BLOCK + _first_beyond(inside, target - before)
    logprobs = (scaled.gather(1, tokens) - top).double() - ends[:, -1:].log()
    return tokens.squeeze(1).tolist(), logprobs.float().squeeze(1).tolist()


def _first_beyond(ends: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """(n, 1): the first place where non-decreasing ``ends`` (n, m) exceed ``target`` (n, 1).

    Where rounding leaves none, the last place that adds anything: never one of weight 0.
    """
    last = (ends < ends[:, -1:]).sum(dim=-1, keepdim=True)
    return torch.minimum(torch.searchsorted(ends, target, right=True), last)


def _common(ids: Sequence[int], other: _Row) -> int:
    """How many tokens, but the last, ``ids`` shares with the beginning of what is cached of ``other``. By bisection."""
    low, high = 0, min(len(ids) - 1, other.cached)
    while low < high:
        middle = (low + high + 1) // 2
        if ids[low:middle] == other.ids[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
