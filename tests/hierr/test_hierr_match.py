from hypothesis import given
from hypothesis import strategies as st

from slca.hierr.match import greedy, optimal

NAMES = st.lists(st.sampled_from("ab"), max_size=5)
# Scores on a grid, so that ties are common and rounding is no matter.
TABLE = st.lists(st.lists(st.integers(0, 4), min_size=5, max_size=5), min_size=5, max_size=5)


def test_greedy_takes_the_first_free_gold_call_of_the_tool() -> None:
    assert greedy(["a", "b", "a"], ["a", "c", "a", "a"]) == {0: 0, 2: 2}


def test_optimal_takes_what_greedy_misses() -> None:
    # Written in the other order: identity scores 0 + 0, crossed 1 + 1.
    assert optimal(["a", "a"], ["a", "a"], lambda i, j: (float(i != j), 0.0)) == {0: 1, 1: 0}


def test_tools_are_never_mixed() -> None:
    assert optimal(["a"], ["b", None], lambda i, j: (1.0, 1.0)) == {}


def test_ties_go_to_the_greater_second_value_then_to_the_nearer_position() -> None:
    assert optimal(["a"], ["a", "a"], lambda i, j: (0.5, float(j))) == {0: 1}
    assert optimal(["a", "a"], ["a", "a", "a"], lambda i, j: (0.5, 0.0)) == {0: 0, 1: 1}


@given(NAMES, NAMES, TABLE)
def test_optimal_is_at_least_greedy_and_pairs_as_many(gold: list[str], predicted: list[str], table: list[list[int]]) -> None:
    best = optimal(gold, predicted, lambda i, j: (table[i][j] / 4, 0.0))
    first = greedy(gold, predicted)
    assert len(best) == len(first) == sum(min(gold.count(name), predicted.count(name)) for name in "ab")
    assert len(set(best.values())) == len(best)
    assert sum(table[i][j] for i, j in best.items()) >= sum(table[i][j] for i, j in first.items())
