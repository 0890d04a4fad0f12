"""What a credit rule is: ``(groups, settings) -> SegmentAdvantages``.

A rule says what each segment of each rollout is worth. It knows no tokens: ``slca.credit.spread`` alone writes those.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from slca.credit.group import Bools, Calls, Floats, Groups
from slca.errors import DataError
from slca.params import Train

Presence = Literal["all", "members"]
OmissionGuard = Literal["tool_side", "paper", "off"]
ToolPOSuccess = Literal["rule", "judge"]


@dataclass(frozen=True)
class Settings:
    """The parameters of credit (method section 2).

    lambda_tool, lambda_sum: weights of the segments, applied after normalising. presence_tool, presence_sum: the members over
    which a segment's mean and deviation run, ``all`` scorable ones or the ``members`` that have the segment.
    """

    lambda_tool: float = 1.0
    lambda_sum: float = 1.0
    presence_tool: Presence = "all"
    presence_sum: Presence = "members"
    omission_guard: OmissionGuard = "tool_side"
    toolpo_success: ToolPOSuccess = "rule"
    rltr_repeat: float = 0.1
    rltr_error: float = 0.2
    eps: float = 1e-6

    @staticmethod
    def from_params(train: Train) -> "Settings":
        return Settings(
            lambda_tool=train.lambda_tool,
            lambda_sum=train.lambda_sum,
            presence_tool=train.presence_tool,
            presence_sum=train.presence_sum,
            omission_guard=train.omission_guard,
            toolpo_success=train.toolpo_success,
            rltr_repeat=train.rltr_repeat,
            rltr_error=train.rltr_error,
        )


@dataclass(frozen=True, eq=False)
class SegmentAdvantages:
    """The advantage of a rollout's TOOL tokens and of its SUMMARY tokens, each (B,); 0 where it has none or is masked.

    calls: what is added on the tokens of single calls, per rollout and call in order; None: nothing.
    """

    tool: Floats
    summary: Floats
    calls: tuple[tuple[float, ...], ...] | None = None


Rule = Callable[[Groups, Settings], SegmentAdvantages]


def counted(groups: Groups, settings: Settings) -> tuple[Bools, Bools]:
    """The rows (B,) whose tool rewards, and those whose summary rewards, make up their group's mean and deviation."""
    tool = groups.has_tool if settings.presence_tool == "members" else True
    summary = groups.has_summary if settings.presence_sum == "members" else True
    return groups.scorable & tool, groups.scorable & summary


def calls_of(groups: Groups, method: str) -> Calls:
    """What is known of single calls. Raises DataError that names the method which needs it."""
    if groups.calls is None:
        raise DataError(f"Method {method} needs what each rollout's calls were; give rewards with call columns, or leave it out.")
    return groups.calls


def on_segments(groups: Groups, tool: Floats, summary: Floats) -> SegmentAdvantages:
    """Keep the advantages of segments that exist. Those of masked rollouts are 0 already: statistics count scorable rows only."""
    return SegmentAdvantages(tool=np.where(groups.has_tool, tool, 0.0), summary=np.where(groups.has_summary, summary, 0.0))
