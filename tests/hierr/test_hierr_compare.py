from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slca.errors import ToolError
from slca.hierr.compare import compare_rule, loose_equal, strict_equal

TEXT = st.sampled_from(["1", "true", "a", "A ", "10", ""])
SCALARS = st.none() | st.booleans() | st.integers(-3, 12) | st.floats(-3, 12) | TEXT
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=2))
RULES = st.none() | st.sampled_from(["case", "set"]) | st.floats(0, 3)

NFD = "Sa\u0303o Paulo"  # decomposed, as some keyboards write it


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (1, 1.0, True),
        (10, "10", False),
        ("1", True, False),
        (1, True, False),
        (0, False, False),
        (None, "", False),
        (None, None, True),
        ("Paris", "paris", False),
        ("Paris", "Paris ", False),
        (NFD, "São Paulo", True),
        ("東京", "東京", True),
        ([1, 2], [1.0, 2], True),
        ([1, 2], [2, 1], False),
        ([1], [1, 1], False),
        ({"a": [True]}, {"a": [1]}, False),
        ({"a": 1, "b": 2}, {"b": 2.0, "a": 1}, True),
        ({"a": 1}, {"a": 1, "b": None}, False),
        ({NFD: 1}, {"São Paulo": 1}, True),
        ([], {}, False),
        (float("nan"), float("nan"), False),
    ],
)
def test_strict_comparison(a: Any, b: Any, equal: bool) -> None:
    assert strict_equal(a, b) is equal


@pytest.mark.parametrize(
    ("rule", "a", "b", "equal"),
    [
        ("case", "Paris", "PARIS", True),
        ("case", ["Paris"], ["paris"], True),
        ("case", "Paris", "Par is", False),
        ("case", "1", 1, False),
        ("set", ["a", "b"], ["b", "a", "a"], True),
        ("set", ["a", "b"], ["a"], False),
        ("set", "ab", "ba", False),
        (0.1, 1.3, 1.2, True),  # 1.3 - 1.2 > 0.1 in binary floats; exact on the decimals
        (0.1, 1.31, 1.2, False),
        (0.5, [1, 2], [1.5, 2], True),
        (1.0, 1, True, False),
        (1.0, "1", "2", False),
        (1.0, float("inf"), 5, False),
        (0.0, 1, 1.0, True),
        (1.0, 10**400, 10**400 + 1, True),
    ],
)
def test_a_schema_can_loosen_the_comparison(rule: Any, a: Any, b: Any, equal: bool) -> None:
    assert strict_equal(a, b, rule) is equal


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        ("1", True, True),
        ("true", True, True),
        (10, "10", True),
        (10, "10.0", True),
        ("New York", "newyork", True),
        (False, "0", True),
        (None, "null", False),
        (["1"], [True], True),
        ({"a": "X"}, {"a": "x "}, True),
        ({"a": 1}, {"b": 1}, False),
        ([], "", False),
        ("1_0", 10, False),  # Python would read 1_0 as a number
        ("nan", "nan", True),  # text, not a number
    ],
)
def test_the_papers_loose_comparison(a: Any, b: Any, equal: bool) -> None:
    assert loose_equal(a, b) is equal


@given(JSON, JSON, RULES)
def test_both_comparisons_are_symmetric(a: Any, b: Any, rule: Any) -> None:
    assert strict_equal(a, b, rule) == strict_equal(b, a, rule)
    assert loose_equal(a, b) == loose_equal(b, a)


@given(JSON, JSON, RULES)
def test_a_rule_only_loosens_and_loose_includes_strict(a: Any, b: Any, rule: Any) -> None:
    if strict_equal(a, b):
        assert strict_equal(a, b, rule)
        assert loose_equal(a, b)


@given(JSON)
def test_a_value_equals_itself(a: Any) -> None:
    assert strict_equal(a, a)


def test_an_unknown_rule_is_refused_by_name() -> None:
    assert compare_rule({"x-compare": 2}, "book") == 2.0
    assert compare_rule({"type": "string"}, "book") is None
    assert compare_rule(True, "book") is None
    for wrong in ("fuzzy", -1, True, float("nan")):
        with pytest.raises(ToolError, match=r"book: x-compare is .*write"):
            compare_rule({"x-compare": wrong}, "book")
