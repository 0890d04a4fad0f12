"""Which predicted call stands for which gold call (method section 3).

Only calls of the same tool can be paired. ``greedy`` (paper): predicted calls in order, each takes the first free gold call of
its tool. ``optimal`` (ours): the assignment with the greatest sum of pair scores (Hungarian method), so that writing the same
calls in another order changes nothing.
"""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

Pairs = dict[int, int]
"""Index of a gold call -> index of the predicted call paired with it."""

Score = Callable[[int, int], tuple[float, float]]
"""(gold index, predicted index) -> (score to maximise, what decides between equal sums)."""

# Far below any difference between two sums of real scores: ties go to the greater second value, then to the nearer position.
_TIE, _NEARER = 1e-7, 1e-10


def greedy(gold: Sequence[str], predicted: Sequence[str | None]) -> Pairs:
    """Pairs of the paper's rule, from the tool names of both sides."""
    pairs: Pairs = {}
    for j, name in enumerate(predicted):
        free = [i for i, wanted in enumerate(gold) if wanted == name and i not in pairs]
        if free:
            pairs[free[0]] = j
    return pairs


def optimal(gold: Sequence[str], predicted: Sequence[str | None], score: Score) -> Pairs:
    """Pairs with the greatest sum of scores. Ties are broken in a fixed way, so the same input gives the same pairs."""
    pairs: Pairs = {}
    longest = max(len(gold), len(predicted), 1)
    for name in dict.fromkeys(gold):
        rows = [i for i, other in enumerate(gold) if other == name]
        columns = [j for j, other in enumerate(predicted) if other == name]
        if not columns:
            continue
        worth = np.empty((len(rows), len(columns)))
        for a, i in enumerate(rows):
            for b, j in enumerate(columns):
                first, second = score(i, j)
                worth[a, b] = first + _TIE * second - _NEARER * ((i - j) / longest) ** 2
        chosen = linear_sum_assignment(worth, maximize=True)
        pairs |= {rows[a]: columns[b] for a, b in zip(*chosen, strict=True)}
    return pairs
