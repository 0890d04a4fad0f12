"""Attention that reads what rows share once, against PyTorch's own over whole rows."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

from slca.rollouts.prefixes import attention_of_one, prefixes

WIDTH, COLUMNS = 4, 11


@given(
    st.lists(st.integers(0, 4), min_size=2, max_size=9).filter(lambda groups: len(set(groups)) < len(groups)),
    st.integers(1, COLUMNS - 1),
    st.sampled_from([(1, 1), (2, 1), (4, 2), (3, 3)]),
    st.integers(0, 2**31),
)
def test_rows_see_the_same_whether_or_not_what_they_share_is_read_once(
    always_worth_it: Callable[[], AbstractContextManager[None]],
    groups: list[int],
    columns: int,
    heads: tuple[int, int],
    seed: int,
) -> None:
    rows, (heads_of_queries, heads_of_keys) = len(groups), heads
    random = torch.Generator().manual_seed(seed)
    query = torch.randn(rows, heads_of_queries, 1, WIDTH, generator=random)
    keys, values = (torch.randn(rows, heads_of_keys, COLUMNS, WIDTH, generator=random) for _ in range(2))
    for row, group in enumerate(groups):
        for each in (keys, values):
            each[row, :, :columns] = each[groups.index(group), :, :columns]
    lengths = torch.randint(columns, COLUMNS, (rows,), generator=random)  # each row attends to one column more at least
    mask = torch.where(torch.arange(COLUMNS) <= lengths[:, None], 0.0, torch.finfo(torch.float32).min)[:, None, None]
    expected = scaled_dot_product_attention(query, keys, values, mask, scale=0.3, enable_gqa=True)
    with always_worth_it():
        shared = prefixes(tuple(groups), columns, WIDTH)
    assert shared is not None
    assert [groups[row] for row in shared.leaders] == list(dict.fromkeys(groups))
    assert shared.members[shared.places].tolist() == list(range(rows))
    torch.testing.assert_close(attention_of_one(query, keys, values, mask, 0.3), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(attention_of_one(query, keys, values, mask, 0.3, shared), expected, atol=1e-5, rtol=0)


def test_what_is_read_once_must_be_much() -> None:
    assert prefixes(tuple(range(64)), 512, 64) is None  # no two rows begin alike
    assert prefixes((0,) * 8, 4, 64) is None
    assert prefixes((0,) * 64, 512, 64) is not None
