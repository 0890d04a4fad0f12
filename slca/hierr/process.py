"""The process score of a rollout's tool calls: five components and their weighted sum (method section 3).

    format    .10  share of call attempts that parse, name a tool of this task and validate
    name      .25  multiset F1 of tool names
    key       .15  Jaccard index of argument keys        \\ averaged over gold calls;
    value     .20  matched argument values / gold keys   / an unmatched gold call counts 0
    parallel  .30  1 if the first step has as many calls as the gold first step, else 0

A gold call without arguments has value 1 once it is matched (its key index says whether arguments were made up). Attempts that
give no name enter format and parallel alone. Calls over the limit of a step are calls. Injected faults: ``slca.hierr.faults``.

Without any attempt format is 0 where a call is needed: an omission scores 0 throughout.

``strict`` (ours): optimal assignment, typed comparison, and *parallel* counts all calls of the first assistant turn. Where no
call is right, abstaining scores 1 in every component; a needless call has process 0, name, key, value and parallel 0, and keeps
its measured format as a diagnosis that the process score does not count.

``paper``: greedy assignment, loose comparison, and *parallel* counts the calls inside the first ``<tool_call>`` block. Our
blocks hold one call each, so that count is 1 as soon as a call was opened, unless the block holds a JSON list, whose length it
then is (such a block is a malformed call all the same). Where no call is right nothing is special-cased, which is where the
published .90 and .45 come from: without gold calls the averages key and value are taken as 1. Abstaining has format 0 (there is
no call that could be well-formed) and the rest 1: .25 + .15 + .20 + .30 = .90. A well-formed needless call has format, key and
value 1, but name 0 and parallel 0: .10 + .15 + .20 = .45.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from slca.chat.formats.hermes import CLOSE, OPEN
from slca.hierr.compare import compare_rule, loose_equal, strict_equal
from slca.hierr.faults import standing
from slca.hierr.match import Pairs, greedy, optimal
from slca.records import Attempt, Call, Json, Step, Task

Variant = Literal["strict", "paper"]

# In hundredths, so that sums such as .90 are exact and can be compared with a threshold.
FORMAT, NAME, KEY, VALUE, PARALLEL = 10, 25, 15, 20, 30

_FIRST_BLOCK = re.compile(rf"{re.escape(OPEN)}(.*?)(?:{re.escape(CLOSE)}|$)", re.DOTALL)


@dataclass(frozen=True)
class Process:
    """Components and their weighted sum ``process``, each in 0..1."""

    format: float
    name: float
    key: float
    value: float
    parallel: float
    process: float


def process_score(task: Task, steps: Sequence[Step], variant: Variant) -> Process:
    """The process score of ``steps`` against the gold plan of ``task``. Raises ToolError for an unusable ``x-compare``."""
    attempts = standing(steps)
    gold = tuple(call for step in task.gold for call in step)
    if variant == "strict" and not gold:
        return _abstention(attempts)
    key, value = _arguments(task, gold, attempts, variant)
    form = _share([attempt.well_formed for attempt in attempts])
    name = _name_f1([call.name for call in gold], attempts)
    parallel = float(_first_step_calls(steps, variant) == (len(task.gold[0]) if task.gold else 0))
    total = math.fsum((FORMAT * form, NAME * name, KEY * key, VALUE * value, PARALLEL * parallel)) / 100
    return Process(form, name, key, value, parallel, total)


def _abstention(attempts: Sequence[Attempt]) -> Process:
    if not attempts:
        return Process(1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
    return Process(_share([attempt.well_formed for attempt in attempts]), 0.0, 0.0, 0.0, 0.0, 0.0)


def _share(flags: Sequence[bool]) -> float:
    return sum(flags) / len(flags) if flags else 0.0


def _name_f1(gold: Sequence[str], attempts: Sequence[Attempt]) -> float:
    """2 * |common names| / (|gold| + |predicted|), as multisets; 1 where nothing was wanted and nothing tried."""
    if not gold and not attempts:
        return 1.0
    predicted = [attempt.name for attempt in attempts if attempt.name is not None]
    common = (Counter(gold) & Counter(predicted)).total()
    return 2 * common / (len(gold) + len(predicted)) if common else 0.0


def _arguments(task: Task, gold: Sequence[Call], attempts: Sequence[Attempt], variant: Variant) -> tuple[float, float]:
    """Key and value component."""
    if not gold:
        return 1.0, 1.0
    scores = [(key, value) for _, (_, key, value) in sorted(pairs(task, gold, attempts, variant).items())]
    return math.fsum(key for key, _ in scores) / len(gold), math.fsum(value for _, value in scores) / len(gold)


def pairs(task: Task, gold: Sequence[Call], attempts: Sequence[Attempt], variant: Variant) -> dict[int, tuple[int, float, float]]:
    """Index of a gold call -> the attempt that stands for it: its index, key index and value share, both 0..1."""
    schemas = {tool["name"]: tool["parameters"].get("properties", {}) for tool in task.tools}

    def compare(name: str, key: str, a: Json, b: Json) -> bool:
        if variant == "paper":
            return loose_equal(a, b)
        rule = compare_rule(schemas.get(name, {}).get(key), f"task {task.task_id}: tool {name!r}: argument {key!r}")
        return strict_equal(a, b, rule)

    def pair(i: int, j: int) -> tuple[float, float]:
        wanted, given = gold[i].arguments, attempts[j].arguments
        if not isinstance(given, dict):
            return 0.0, 0.0
        both = wanted.keys() & given.keys()
        either = wanted.keys() | given.keys()
        matched = sum(compare(gold[i].name, key, wanted[key], given[key]) for key in both)
        return (len(both) / len(either) if either else 1.0), (matched / len(wanted) if wanted else 1.0)

    def worth(i: int, j: int) -> tuple[float, float]:
        key, value = pair(i, j)
        return (KEY * key + VALUE * value) / 100, value

    names = [call.name for call in gold]
    tried = [attempt.name for attempt in attempts]
    found: Pairs = greedy(names, tried) if variant == "paper" else optimal(names, tried, worth)
    return {i: (j, *pair(i, j)) for i, j in found.items()}


def _first_step_calls(steps: Sequence[Step], variant: Variant) -> int:
    if not steps or not steps[0].attempts:
        return 0
    return len(steps[0].attempts) if variant == "strict" else _first_block_calls(steps[0].text)


def _first_block_calls(text: str) -> int:
    """Calls in the first block of a turn that opened one: the length of a JSON list, 1 for anything else."""
    block = _FIRST_BLOCK.search(text)
    try:
        body = json.loads(block[1]) if block else None
    except (ValueError, RecursionError):
        return 1
    return len(body) if isinstance(body, list) else 1
