"""What every judge is, and how it fails."""

from collections.abc import Sequence
from typing import Protocol

from slca.records import Json


class JudgeFailure(Exception):
    """A judge could not rate a reply: it is down, timed out, or answered nonsense. The rollout is masked and counted."""


class Judge(Protocol):
    """Anything that rates replies. Equal arguments give equal ratings."""

    def rate(self, question: str, results: Sequence[Json], reply: str, facts: Sequence[str]) -> float:
        """A rating in 1..5. Raises JudgeFailure where none can be had."""
        ...
