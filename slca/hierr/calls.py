"""What each call of a rollout was worth by itself: the rewards of the estimators that look at calls (method section 4).

A call's own score is the part of the process score (``slca.hierr.process``, strict) that belongs to a single call, in 0..1:

    (.10 format + .25 name + .15 key + .20 value) / .70

name is 1 and key and value are the pair's where the call stands for a gold call (optimal assignment); they are 0 otherwise.
Where no call is right every call scores 0. A faulted call that was made again scores what its retry scores.

* correct: gold calls that some attempt meets in full (ToolPO sums them up).
* completeness: correct / gold calls; where no call is right 1 without attempts, else 0 (RLTR).
* errors: attempts that were refused through the policy's own fault; malformed: those that are no call at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from slca.hierr.faults import retries
from slca.hierr.process import FORMAT, KEY, NAME, VALUE, pairs
from slca.records import CallError, Step, Task

_NOT_THE_POLICY = (None, CallError.FAULT, CallError.SIMULATOR_FAILURE)
_NO_CALL = (CallError.MALFORMED, CallError.UNCLOSED)


@dataclass(frozen=True)
class CallScores:
    """steps, scores: of every attempt in order, the number of its turn (from 0) and its own score."""

    steps: tuple[int, ...]
    scores: tuple[float, ...]
    correct: int
    completeness: float
    errors: int
    malformed: int


def call_scores(task: Task, steps: Sequence[Step]) -> CallScores:
    """The calls of ``steps`` against the gold plan of ``task``. Raises ToolError for an unusable ``x-compare``."""
    attempts = [attempt for step in steps for attempt in step.attempts]
    replaced = {faulted: retry for retry, faulted in retries(steps).items()}
    standing = [index for index in range(len(attempts)) if index not in replaced]
    gold = [call for step in task.gold for call in step]
    found = pairs(task, gold, [attempts[index] for index in standing], "strict")
    scores = [FORMAT * attempt.well_formed / 70 if gold else 0.0 for attempt in attempts]
    for place, key, value in found.values():
        attempt = attempts[standing[place]]
        scores[standing[place]] = (FORMAT * attempt.well_formed + NAME + KEY * key + VALUE * value) / 70
    for faulted, retry in replaced.items():
        scores[faulted] = scores[retry]
    correct = sum(key == value == 1.0 for _, key, value in found.values())
    return CallScores(
        steps=tuple(number for number, step in enumerate(steps) for _ in step.attempts),
        scores=tuple(scores),
        correct=correct,
        completeness=correct / len(gold) if gold else float(not attempts),
        errors=sum(attempt.error not in _NOT_THE_POLICY for attempt in attempts),
        malformed=sum(attempt.error in _NO_CALL for attempt in attempts),
    )
