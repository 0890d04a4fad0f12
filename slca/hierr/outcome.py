"""The outcome score: did the calls bring about what the task demands, whatever path led there? (method section 3)

1.0 when the service's last state is the task's end state and every required fact occurs in the results of executed calls. Where
no call is right: 1.0 only when none was attempted. A call that was lost to an injected fault and never retried did not happen,
and scores accordingly: the policy read of the fault and could have tried again.
"""

from slca.hierr.words import contains, fold, result_text
from slca.records import Rollout, Task


def outcome_score(task: Task, rollout: Rollout) -> float:
    """1.0 or 0.0."""
    if not task.needs_call:
        return float(not rollout.attempts)
    if rollout.end_state != task.end_state:
        return 0.0
    said = result_text(attempt.result for attempt in rollout.attempts if attempt.error is None)
    return float(all(contains(said, fold(fact)) for fact in task.facts))
