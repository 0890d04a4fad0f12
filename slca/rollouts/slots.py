"""The KV cache of many conversations: token t of the conversation in slot i is in column t of row i.

Hence there are no holes: rows of any lengths lie side by side, each grows at its own end, a column is a position, and the
attention mask is ``column <= position``. What lies behind a row's end is never attended to; it is overwritten as the row grows
or as another conversation takes the slot. However many come and go, the buffer has the rows that were reserved, and at most
twice as many columns as the longest conversation (or ``_FIRST_COLUMNS``).

A pass over slots 0..n-1 reads the cache in place; a pass over any other choice copies the rows it reads. So whoever decodes
keeps its rows in front (``exchange``).
"""

import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers.cache_utils import Cache, DynamicLayer

from slca.errors import DataError
from slca.rollouts.lean import Lean, fits
from slca.rollouts.prefixes import prefixes

_FIRST_COLUMNS = 512
_EXACT_ATTENTION = ("sdpa", "eager")
_EXACT_LAYERS = ("full_attention", "sliding_attention")


@dataclass(frozen=True)
class _Pass:
    """Where the tokens of a forward pass belong. slots, columns, sources, queries: one element per token, padding left out.

    rows: the slots of the pass, (n,), or None for the slots 0..count-1. columns_read: the columns that the pass may attend to.
    """

    slots: torch.Tensor
    columns: torch.Tensor
    sources: torch.Tensor
    queries: torch.Tensor
    rows: torch.Tensor | None
    count: int
    rows_reserved: int
    columns_read: int


class _Layer(DynamicLayer):  # type: ignore[misc]
    """Keys and values of one layer, each (slots, heads, columns, width). ``now`` says what the next ``update`` is about."""

    keys: torch.Tensor
    values: torch.Tensor
    is_initialized: bool
    now: _Pass

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any) -> tuple[Any, Any]:
        """Store the new tokens, (n, heads, queries, width); return all that the pass reads, (n, heads, columns_read, width)."""
        if not self.is_initialized:
            self.keys, self.values = key_states[:0, :, :0], value_states[:0, :, :0]
            self.is_initialized = True
        self.keys, self.values = self._updated(self.keys, key_states), self._updated(self.values, value_states)
        return self._read(self.keys), self._read(self.values)

    def get_seq_length(self) -> int:
        """Positions and mask are given to the model, so no row's length is asked for here."""
        return 0

    def _updated(self, buffer: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        now = self.now
        buffer = _with_room(buffer, now.rows_reserved, now.columns_read)
        new = states[:, :, 0] if states.shape[2] == 1 else states[now.sources, :, now.queries]
        buffer[now.slots, :, now.columns] = new
        return buffer

    def _read(self, buffer: torch.Tensor) -> torch.Tensor:
        read = buffer[:, :, : self.now.columns_read]
        return read[: self.now.count] if self.now.rows is None else read.index_select(0, self.now.rows)


class Slots:
    """A model with such a cache; its weights may be those of now (``slca.rollouts.lean``).

    Raises DataError for a model that it would not compute exactly.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        config = model.config.get_text_config()
        self._window, self._by_layer = _windows(config)
        arguments = inspect.signature(model.forward).parameters
        # transformers 5 renames the argument on its way.
        self._cache_argument = next((name for name in ("cache", "past_key_values") if name in arguments), None)
        name = type(model).__name__
        if self._cache_argument is None or "position_ids" not in arguments or model.config.is_encoder_decoder:
            raise DataError(f"{name} cannot be rolled out: it needs a decoder that takes a KV cache and position ids.")
        if getattr(config, "num_kv_shared_layers", 0):
            raise DataError(f"{name} cannot be rolled out: some of its layers have no keys and values of their own.")
        if config._attn_implementation not in _EXACT_ATTENTION:
            known = " or ".join(repr(each) for each in _EXACT_ATTENTION)
            raise DataError(f"{name} runs attention {config._attn_implementation!r}; load it with attn_implementation {known}.")
        self._layers = [_Layer() for _ in range(config.num_hidden_layers)]
        self._cache = Cache(layers=self._layers)
        self._reserved = 0
        self._device, self._dtype = model.device, model.dtype  # transformers looks for them anew each time
        self._lean = Lean(model) if fits(model) else None

    def reserve(self, slots: int) -> None:
        """Slots 0..slots-1 will be used."""
        self._reserved = max(self._reserved, slots)

    def forward(
        self,
        slots: Sequence[int],
        tokens: Sequence[Sequence[int]],
        starts: Sequence[int],
        groups: Sequence[int] | None = None,
        shared: int = 0,
    ) -> torch.Tensor:
        """Append tokens[i], at least one, behind the first starts[i] tokens in slots[i]; (n, vocabulary) logits, float32.

        The logits are those behind each row's last token. Rows of the same of ``groups`` have their first ``shared`` tokens in
        common, all in the cache.
        """
        first_ones = list(slots) == list(range(len(slots)))
        lengths = np.array([len(row) for row in tokens])
        width = int(lengths.max())
        offsets = np.arange(width) - (width - lengths)[:, None]  # padded on the left: every row's last token is in one column
        fresh = offsets >= 0
        columns = np.maximum(np.array(starts)[:, None] + offsets, 0)
        padded = np.zeros(columns.shape, dtype=np.int64)
        padded[fresh] = list(chain.from_iterable(tokens))
        sources, queries = fresh.nonzero()
        where = np.array(slots)
        ids, positions = self._tensor(padded), self._tensor(columns)
        now = _Pass(
            self._tensor(where[sources]),
            self._tensor(columns[fresh]),
            self._tensor(sources),
            self._tensor(queries),
            None if first_ones else self._tensor(where),
            len(slots),
            self._reserved,
            int(columns.max()) + 1,
        )
        for layer in self._layers:
            layer.now = now
        mask = self._mask(positions, now.columns_read)
        if self._lean:
            alike = None
            if groups and first_ones and width == 1 and self._window is None and self._layers[0].is_initialized:
                _, heads, _, head_width = self._layers[0].keys.shape
                alike = prefixes(tuple(groups), shared, heads * head_width)
            return self._lean(ids, positions, mask, self._layers, alike)
        output = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1,
            **{str(self._cache_argument): self._cache},
        )
        logits: torch.Tensor = output.logits[:, -1].float()
        return logits

    def _tensor(self, array: NDArray[np.int64]) -> torch.Tensor:
        return torch.from_numpy(array).to(self._device)

    def copy(self, source: int, target: int, columns: int) -> None:
        """Let slot ``target`` begin with the first ``columns`` tokens of slot ``source``."""
        for layer in self._layers:
            layer.keys, layer.values = (_with_room(buffer, self._reserved, columns) for buffer in (layer.keys, layer.values))
            for buffer in (layer.keys, layer.values):
                buffer[target, :, :columns] = buffer[source, :, :columns]

    def exchange(self, one: int, other: int, columns: int) -> None:
        """Swap two slots, of which ``columns`` columns are in use."""
        for layer in self._layers:
            for buffer in (layer.keys, layer.values):
                kept = buffer[one, :, :columns].clone()
                buffer[one, :, :columns] = buffer[other, :, :columns]
                buffer[other, :, :columns] = kept

    @property
    def shape(self) -> tuple[int, int]:
        """Slots and columns that are allocated."""
        keys = self._layers[0].keys
        return (keys.shape[0], keys.shape[2]) if self._layers[0].is_initialized else (0, 0)

    def _mask(self, positions: torch.Tensor, columns: int) -> torch.Tensor | dict[str, torch.Tensor]:
        """What each token attends to, as numbers added to scores, (n, 1, queries, columns); by kind of layer if they differ."""
        column = torch.arange(columns, device=positions.device)
        allowed = column <= positions[:, :, None]
        if self._window is None:
            return self._added(allowed)
        near = self._added(allowed & (column > positions[:, :, None] - self._window))
        return {"full_attention": self._added(allowed), "sliding_attention": near} if self._by_layer else near

    def _added(self, allowed: torch.Tensor) -> torch.Tensor:
        mask = torch.zeros(allowed.shape, dtype=self._dtype, device=allowed.device)
        return mask.masked_fill_(~allowed, torch.finfo(self._dtype).min)[:, None]


def _with_room(buffer: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """``buffer``, or a larger copy. Columns double, so that each entry is copied but a few times."""
    if buffer.shape[0] >= rows and buffer.shape[2] >= columns:
        return buffer
    old_rows, heads, old_columns, width = buffer.shape
    rows = max(rows, old_rows)
    columns = old_columns if columns <= old_columns else max(columns, 2 * old_columns, _FIRST_COLUMNS)
    grown = _zeros(buffer, (rows, heads, columns, width))
    grown[:old_rows, :, :old_columns] = buffer
    return grown


def _zeros(like: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Zeros, not whatever is there: a masked column has weight 0, and 0 times NaN is NaN.

    On a CPU they come from numpy, which asks the system for pages of zeros: what no conversation reaches is never written.
    """
    if like.device.type != "cpu":
        return like.new_zeros(shape)
    data = np.zeros(math.prod(shape) * like.element_size(), dtype=np.uint8)
    return torch.from_numpy(data).view(like.dtype).view(shape)


def _windows(config: Any) -> tuple[int | None, bool]:
    """The sliding window in tokens (None: every token attends to all before it), and whether it is for some layers only."""
    kinds = getattr(config, "layer_types", None)
    unknown = sorted(set(kinds or ()) - set(_EXACT_LAYERS))
    if unknown:
        raise DataError(
            f"Models of type {config.model_type!r} cannot be rolled out: {', '.join(unknown)} layers keep no KV cache."
        )
    window = getattr(config, "sliding_window", None)
    if window is None or (kinds is not None and "sliding_attention" not in kinds):
        return None, False
    return int(window), kinds is not None
