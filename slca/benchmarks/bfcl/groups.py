"""The categories, scores of groups of them, and the items that no right answer satisfies. Needs the standard library alone.

A group has a score only where all of its categories were run in full. Upstream counts a missing category as 0; here its group
says that it is partial. The overall score of BFCL v4 is not given, since its agentic part (40 %) is not run: ``overall_60`` is
the points that the other parts contribute, out of 60.

``published_13`` is the plain mean of 13 subsets of v3, "without irrelevance and long context": v3 has 17; the two irrelevance
subsets, live_relevance, which measures the same from the other side, and multi_turn_long_context are left out.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Literal

Category = Literal[
    "simple_python",
    "simple_java",
    "simple_javascript",
    "multiple",
    "parallel",
    "parallel_multiple",
    "irrelevance",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
    "live_irrelevance",
    "live_relevance",
    "multi_turn_base",
    "multi_turn_miss_func",
    "multi_turn_miss_param",
    "multi_turn_long_context",
]
Style = Literal["native", "prompt"]
"""native: the chat format lists the tools and writes the calls. prompt: BFCL's published system prompt lists the functions, and
calls are written as ``[f(a=1)]``."""

SIMPLE = ("simple_python", "simple_java", "simple_javascript")
NON_LIVE = (*SIMPLE, "multiple", "parallel", "parallel_multiple")
LIVE = ("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple")
IRRELEVANCE = ("irrelevance", "live_irrelevance")
PUBLISHED_13 = (*NON_LIVE, *LIVE, "multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param")
MULTI_TURN = (*PUBLISHED_13[-3:], "multi_turn_long_context")
GROUPS = {"non_live": NON_LIVE, "live": LIVE, "irrelevance": IRRELEVANCE, "multi_turn": MULTI_TURN, "published_13": PUBLISHED_13}
POINTS = {"non_live": 10, "live": 10, "irrelevance": 10, "multi_turn": 30}
"""What each group can contribute to the overall score of v4, in points of 100."""

UNSATISFIABLE = {
    "simple_java_36": "the answer mixes strings, numbers and booleans in a list whose items the checker reads as strings",
    "simple_java_64": "the value of the answer's map is compared letter by letter: an empty map or a single letter passes",
    "simple_java_65": "the answer mixes strings and booleans in a list whose items the checker reads as strings",
    "live_simple_106-63-0": "two required arguments have no acceptable value",
    "live_simple_112-68-0": "five required arguments have no acceptable value",
    "live_multiple_862-181-3": "the answer needs the argument journey_start_time, which the function does not have",
    "live_multiple_964-207-0": "the answer calls the argument question that the function calls statement",
}
"""Item -> why an answer that is right scores 0; of simple_java_64 a wrong one passes."""


def scores(accuracy: Mapping[str, float], weight: Mapping[str, int], full: Sequence[str]) -> dict[str, float | str]:
    """Scores (shares, 0..1) of the groups that have a category in ``accuracy``, and ``overall_60`` where it can be known.

    weight: category -> items. full: the categories that were run in full. A group without all of them has a sentence instead.
    """
    found: dict[str, float | str] = {}
    for group, members in GROUPS.items():
        run = [category for category in members if category in accuracy]
        complete = [category for category in run if category in full]
        if len(complete) == len(members):
            found[group] = _score(group, members, accuracy, weight)
        elif run:
            found[group] = f"{len(complete)} of {len(members)} categories in full"
    points = [POINTS[group] * value for group, value in found.items() if group in POINTS and isinstance(value, float)]
    if len(points) == len(POINTS):
        found["overall_60"] = sum(points)
    return found


def _score(group: str, members: Sequence[str], accuracy: Mapping[str, float], weight: Mapping[str, int]) -> float:
    if group == "non_live":  # the three simple categories count as one
        return fmean([fmean(accuracy[category] for category in SIMPLE), *(accuracy[category] for category in NON_LIVE[3:])])
    if group == "live":
        return fmean([accuracy[category] for category in members], [weight[category] for category in members])
    return fmean(accuracy[category] for category in members)
