import random
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slca.errors import DataError
from slca.tasks.values import KINDS, draw, part_of, pool

SOME = [*KINDS, "id:FL", "int:5:900", "int:50:5000:10"]


@pytest.mark.parametrize("kind", SOME)
def test_parts_share_no_value_and_a_fifth_is_held_out(kind: str) -> None:
    train, test = pool(kind, "train"), pool(kind, "test")
    assert not set(train) & set(test)
    assert 0.1 < len(test) / (len(train) + len(test)) < 0.3


@pytest.mark.parametrize("kind", ["person", "city", "title", "song", "item", "text", "room", "place"])
def test_names_are_many(kind: str) -> None:
    values = pool(kind, "train") + pool(kind, "test")
    assert len(set(values)) == len(values) >= 150
    assert all(unicodedata.normalize("NFC", value) == value for value in values)


def test_non_ascii_names_are_there() -> None:
    cities = pool("city", "train") + pool("city", "test")
    assert {"São Paulo", "東京", "Zürich", "Łódź"} <= set(cities)
    assert any(not city.isascii() for city in pool("city", "train"))
    assert any(not city.isascii() for city in pool("city", "test"))


@given(st.integers(2, 10**6))
def test_a_number_is_in_one_part_whatever_its_range(value: int) -> None:
    part = part_of(f"int:{value}:{value + 10}", value)
    assert part == part_of("int:2:1000000", value)
    assert value in pool(f"int:{value}:{value + 60}", part)


def test_numbers_stay_in_their_range() -> None:
    rng = random.Random(0)
    drawn = {draw("int:50:500:10", rng, "train") for _ in range(300)}
    assert min(drawn) >= 50 and max(drawn) <= 500 and all(value % 10 == 0 for value in drawn)


@pytest.mark.parametrize("kind", ["nobody", "id:", "int:5", "int:a:b"])
def test_unknown_kinds_are_refused_with_their_name(kind: str) -> None:
    with pytest.raises(DataError, match=f"'{kind}'"):
        pool(kind, "train")


def test_a_range_without_held_out_value_is_refused() -> None:
    low = next(value for value in range(2, 100) if part_of("int", value) == "train")
    with pytest.raises(DataError, match="widen its range"):
        pool(f"int:{low}:{low}", "test")
