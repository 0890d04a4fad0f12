"""The summary score: what the reply to the user is worth (method section 3).

A judge's rating r in 1..5 becomes (r - 1) / 4. The score is 0, without asking the judge, when the reply is under 10 characters
or a needed call left no tool result to report; a result that only reports an error is none.

Departure: where no call is right there is no result to report either, and the published 0 would punish the text of every right
abstention and favour needless calls. ``strict`` lets the judge rate such a reply on its own facts (asks for the missing value,
says that it cannot); ``paper`` keeps the 0.

``paper`` also keeps the published 0.0 for a judge failure; ``strict`` raises it, so that the rollout is masked.
"""

from slca.chat.formats.hermes import END_OF_TURN
from slca.hierr.judges import Judge, JudgeFailure
from slca.hierr.process import Variant
from slca.records import Json, Rollout, Task

MIN_REPLY = 10


def visible_reply(rollout: Rollout) -> str:
    """The reply as the user sees it, without its end-of-turn marker; empty if the rollout did not end by itself."""
    return rollout.reply.strip().removesuffix(END_OF_TURN).strip()


def reported_results(rollout: Rollout) -> tuple[Json, ...]:
    """Results of the executed calls."""
    return tuple(attempt.result for attempt in rollout.attempts if attempt.error is None)


def is_judged(task: Task, rollout: Rollout, variant: Variant) -> bool:
    """Whether there is a reply for a judge to rate; where not, the score is 0."""
    if len(visible_reply(rollout)) < MIN_REPLY:
        return False
    return bool(reported_results(rollout)) or (variant == "strict" and not task.needs_call)


def summary_score(task: Task, rollout: Rollout, variant: Variant, judge: Judge) -> float:
    """The score in 0..1. Raises JudgeFailure (``strict`` only) where the judge fails or its rating is no number in 1..5."""
    if not is_judged(task, rollout, variant):
        return 0.0
    try:
        rating = judge.rate(task.question, reported_results(rollout), visible_reply(rollout), task.facts)
        if not 1.0 <= rating <= 5.0:  # NaN fails this too
            raise JudgeFailure(f"rating {rating} is outside 1..5")
    except JudgeFailure:
        if variant == "paper":
            return 0.0
        raise
    return (rating - 1) / 4
