"""Injected faults are never held against the policy (method section 5): what they and their retries count for.

A *retry* is a call equal to one that met a fault in an earlier step (the policy has read of it by then). The retry stands for
both: the faulted attempt is taken out before anything is counted. A faulted call that was never retried stays in, as the
well-formed call that it was. So a rollout with a fault and a retry has the process score of the same rollout without the fault.
"""

from collections.abc import Sequence

from slca.hierr.compare import strict_equal
from slca.records import Attempt, CallError, Step


def same_call(a: Attempt, b: Attempt) -> bool:
    """Whether two attempts name the same tool with equal arguments; nameless attempts are never the same."""
    return a.name is not None and a.name == b.name and strict_equal(a.arguments, b.arguments)


def retries(steps: Sequence[Step]) -> dict[int, int]:
    """Index of each retry -> index of the faulted attempt it repeats; indexes into all attempts in order."""
    flat = [(number, attempt) for number, step in enumerate(steps) for attempt in step.attempts]
    found: dict[int, int] = {}
    for i, (step, attempt) in enumerate(flat):
        if attempt.error is not CallError.FAULT:
            continue
        for j, (later, other) in enumerate(flat):
            if later > step and j not in found and same_call(attempt, other):
                found[j] = i
                break
    return found


def standing(steps: Sequence[Step]) -> tuple[Attempt, ...]:
    """All attempts in order, without the faulted ones that a retry stands for."""
    replaced = set(retries(steps).values())
    attempts = [attempt for step in steps for attempt in step.attempts]
    return tuple(attempt for i, attempt in enumerate(attempts) if i not in replaced)
