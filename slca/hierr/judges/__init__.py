"""Judges of the reply to the user: each rates it from 1 to 5 (method section 3).

A judge sees the question, the tool results and the reply; ``facts`` are the strings that a good reply states, for judges that
work without a model. Judges that ask a server or a local model take their place in ``JUDGES`` beside the rubric.
"""

from collections.abc import Sequence
from typing import Protocol

from slca.hierr.judges.rubric import Rubric
from slca.records import Json


class JudgeFailure(Exception):
    """A judge could not rate a reply: it is down, timed out, or answered nonsense. The rollout is masked and counted."""


class Judge(Protocol):
    """Anything that rates replies. Equal arguments give equal ratings."""

    def rate(self, question: str, results: Sequence[Json], reply: str, facts: Sequence[str]) -> float:
        """A rating in 1..5. Raises JudgeFailure where none can be had."""
        ...


JUDGES: dict[str, Judge] = {"rubric": Rubric()}

__all__ = ["JUDGES", "Judge", "JudgeFailure", "Rubric"]
