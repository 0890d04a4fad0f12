"""How many calls a rollout makes that it did not need (method section 3).

Redundancy counts tool names, as the name component does: whether the arguments are right is for the value component to say.
"""

from collections import Counter

from slca.hierr.faults import retries, same_call, standing
from slca.records import Plan, Rollout


def redundancy(gold: Plan, rollout: Rollout) -> float:
    """Call attempts beyond the gold multiset of tool names / all call attempts, in 0..1; 0.0 without calls.

    An attempt that names no tool is beyond it. A retry of a faulted call is not redundant.
    """
    if not rollout.attempts:
        return 0.0
    made = standing(rollout.steps)
    wanted = Counter(call.name for step in gold for call in step)
    accounted = (wanted & Counter(attempt.name for attempt in made if attempt.name is not None)).total()
    return (len(made) - accounted) / len(rollout.attempts)


def repeats(rollout: Rollout) -> int:
    """Calls equal to the call just before them. A retry of a faulted call is none; attempts without a name are no calls."""
    attempts = rollout.attempts
    retried = retries(rollout.steps)
    return sum(same_call(attempts[i - 1], attempts[i]) and i not in retried for i in range(1, len(attempts)))
