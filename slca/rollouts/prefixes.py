"""Attention of one new token per row, where rows begin alike: what a group shares is read once for all its members.

The members of a group have one prompt, each with its own copy in the cache. What attention costs is the way from memory, so the
prompt is read from the copy of the first member; softmax is over both parts at once, as if they had been read together.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch

_WORTH = 1 << 18
"""Numbers, of keys as of values, from which on not to read them saves more than the parts cost."""


@dataclass(frozen=True)
class Prefixes:
    """Rows 0..n-1 in groups that begin alike.

    columns: how many columns every group shares. leaders, (groups,): a row of each. members, (groups * most,): the rows of each
    group, filled up with any. places, (n,): where in ``members`` a row is.
    """

    columns: int
    leaders: torch.Tensor
    members: torch.Tensor
    places: torch.Tensor


@lru_cache(maxsize=1)  # from step to step the rows are mostly the same
def prefixes(groups: tuple[int, ...], columns: int, numbers: int) -> Prefixes | None:
    """The prefixes of rows of the named groups, which share ``columns`` of so many ``numbers`` each; None if not worth it."""
    rows_of: dict[int, list[int]] = {}
    for row, group in enumerate(groups):
        rows_of.setdefault(group, []).append(row)
    if (len(groups) - len(rows_of)) * columns * numbers < _WORTH:
        return None
    most = max(map(len, rows_of.values()))
    members = torch.tensor([[*rows, *rows[:1] * (most - len(rows))] for rows in rows_of.values()])
    places = torch.empty(len(groups), dtype=torch.long)
    for number, rows in enumerate(rows_of.values()):
        places[rows] = torch.arange(number * most, number * most + len(rows))
    return Prefixes(columns, members[:, 0].contiguous(), members.flatten(), places)


def attention_of_one(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor,
    scale: float,
    shared: Prefixes | None = None,
) -> torch.Tensor:
    """What query (n, heads, 1, width) sees of keys and values (n, key heads, columns, width); mask (n, 1, 1, columns) is added.

    The heads that share keys are the rows of one product.
    """
    rows, key_heads, _, width = keys.shape
    query = (query * scale).reshape(rows, key_heads, -1, width)
    if shared is None:
        weights = (_product(query, keys.transpose(2, 3)) + mask).softmax(dim=-1)
        return _product(weights, values).view(rows, -1, 1, width)
    first = shared.columns
    leading_keys, leading_values = (each[:, :, :first].index_select(0, shared.leaders) for each in (keys, values))
    scores = torch.cat(
        (
            _of_leaders(query, leading_keys.transpose(2, 3), shared),
            _product(query, keys[:, :, first:].transpose(2, 3)) + mask[..., first:],
        ),
        dim=-1,
    )
    weights = scores.softmax(dim=-1)
    seen = _of_leaders(weights[..., :first], leading_values, shared) + _product(weights[..., first:], values[:, :, first:])
    return seen.view(rows, -1, 1, width)


def _product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """(n, key heads, a, b) times (n, key heads, b, c)."""
    return torch.bmm(left.flatten(0, 1), right.flatten(0, 1)).view(*left.shape[:3], right.shape[3])


def _of_leaders(left: torch.Tensor, right: torch.Tensor, shared: Prefixes) -> torch.Tensor:
    """(n, key heads, a, b) times each row's leader's of (groups, key heads, b, c)."""
    groups = len(shared.leaders)
    _, key_heads, heads, inner = left.shape
    together = left.index_select(0, shared.members).view(groups, -1, key_heads, heads, inner).transpose(1, 2)
    product = _product(together.reshape(groups, key_heads, -1, inner), right)
    apart = product.view(groups, key_heads, -1, heads, right.shape[3]).transpose(1, 2)
    return apart.flatten(0, 1).index_select(0, shared.places)
