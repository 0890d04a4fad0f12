"""The input of every credit rule: two rewards per rollout, grouped by task, and the statistics inside a group.

One row per rollout (a trajectory, however many turns it took), B rows in all. In training with several processes these are
the gathered rows, since a group may span processes; each process then keeps its own rows of the result.

Masking: a rollout with a reward that could not be computed (judge or simulator failure) is masked as a whole. It is no member of
any mean or deviation and its advantages are 0; it never counts as reward 0. Masking the rollout, not only the reward that is
missing, gives every rule the same members, with a sum of rewards or without. Its tokens stay in the loss's denominator.
"""

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slca.errors import DataError
from slca.records import Reward, Segment

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Calls:
    """What the calls of B rollouts were, for the rules that look at them; see ``slca.hierr.calls``.

    success, correct, completeness, repeats, errors, malformed: (B,). steps, scores: per rollout, of its calls in order.
    """

    success: Floats
    correct: Floats
    completeness: Floats
    repeats: Floats
    errors: Floats
    malformed: Floats
    steps: tuple[tuple[int, ...], ...]
    scores: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        lengths = {name: len(values) for name, values in vars(self).items()}
        unequal = [row for row, steps in enumerate(self.steps) if len(steps) != len(self.scores[row])]
        if len(set(lengths.values())) != 1 or unequal:
            raise DataError(
                f"Calls need one entry per rollout and one score per call, not {lengths}, unequal rows {unequal[:5]}."
            )


@dataclass(frozen=True, eq=False)
class Groups:
    """B rollouts, each field (B,).

    group: which rollouts belong to one task. tool, summary: the rewards R_tool and R_sum, NaN exactly where not scorable.
    has_tool, has_summary: the rollout has tokens of that segment. needs_call: the task does. opened_call: the rollout opened
    a call marker, well-formed or not. calls: None where nothing is known of single calls; rules that need it then refuse.
    Raises DataError where the fields do not fit together.
    """

    group: Rows
    tool: Floats
    summary: Floats
    has_tool: Bools
    has_summary: Bools
    scorable: Bools
    needs_call: Bools
    opened_call: Bools
    calls: Calls | None = None

    def __post_init__(self) -> None:
        shapes = {name: np.shape(values) for name, values in vars(self).items() if name != "calls"}
        if self.calls is not None:
            shapes["calls"] = self.calls.success.shape
        if set(shapes.values()) != {(len(self.group),)} or not len(self.group):
            raise DataError(f"Groups need fields of one shape (B,) with B at least 1, not {shapes}; pass one row per rollout.")
        for name, rewards in (("tool", self.tool), ("summary", self.summary)):
            wrong = np.flatnonzero(~np.where(self.scorable, np.isfinite(rewards), np.isnan(rewards)))
            if wrong.size:
                row = int(wrong[0])
                raise DataError(
                    f"Groups row {row}: {name} is {float(rewards[row])} where scorable is {bool(self.scorable[row])}; "
                    "a reward is a finite number where scorable and NaN where not."
                )

    def take(self, rows: Any) -> "Groups":
        """The rollouts that an index array or a mask (B,) picks, in its order."""
        order = np.arange(len(self.group))[rows]

        def picked(values: Any) -> Any:
            return tuple(values[row] for row in order) if isinstance(values, tuple) else values[order]

        calls = None if self.calls is None else Calls(**{name: picked(values) for name, values in vars(self.calls).items()})
        return Groups(**{name: picked(values) for name, values in vars(self).items() if name != "calls"}, calls=calls)

    def rows(self) -> Iterator[Rows]:
        """The row numbers of each group in turn."""
        for group in np.unique(self.group):
            yield np.flatnonzero(self.group == group)


@dataclass(frozen=True)
class MemberCalls:
    """One rollout's row of ``Calls``."""

    success: float
    correct: float
    completeness: float
    repeats: float
    errors: float
    malformed: float
    steps: tuple[int, ...]
    scores: tuple[float, ...]


@dataclass(frozen=True)
class Member:
    """One rollout's row of ``Groups``. tool, summary: None where they could not be computed; either masks the rollout."""

    tool: float | None
    summary: float | None
    has_tool: bool
    has_summary: bool
    needs_call: bool = False
    opened_call: bool = False
    calls: MemberCalls | None = None


def groups_of(members: Sequence[Member], names: Sequence[Hashable]) -> Groups:
    """The rollouts ``members``, in that order; equal ``names`` make a group. A reward that is not finite masks too."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    scores = np.array([(member.tool, member.summary) for member in members], dtype=np.float64).reshape(-1, 2)
    scorable: Bools = np.asarray(np.isfinite(scores).all(axis=1))
    scores[~scorable] = np.nan
    flags: dict[str, Any] = {name: np.array([getattr(member, name) for member in members], dtype=np.bool_) for name in _FLAGS}
    calls = [member.calls for member in members if member.calls is not None]
    return Groups(
        group=np.array([numbers[name] for name in names], dtype=np.int64),
        tool=scores[:, 0],
        summary=scores[:, 1],
        scorable=scorable,
        calls=_calls(calls) if len(calls) == len(members) else None,
        **flags,
    )


def groups_from_rewards(rewards: Sequence[Reward], labels: Sequence[Sequence[int]]) -> Groups:
    """The rollouts that ``rewards`` score, in that order, grouped by task id; ``labels[i]`` are the token labels of the i-th.

    A reward that is None or not finite, or a reason to mask, masks the rollout. Raises DataError for unequal lengths and for a
    rollout that occurs twice (turns of a trajectory are not members of their own).
    """
    if len(rewards) != len(labels):
        raise DataError(f"There are {len(rewards)} rewards but labels of {len(labels)} rollouts; pass one of each per rollout.")
    seen: set[str] = set()
    for reward in rewards:
        if reward.rollout_id in seen:
            raise DataError(f"Rollout {reward.rollout_id!r} has two rewards; a trajectory enters its group once.")
        seen.add(reward.rollout_id)
    members = [member_of(reward, row) for reward, row in zip(rewards, labels, strict=True)]
    return groups_of(members, [reward.task_id for reward in rewards])


def member_of(reward: Reward, labels: Sequence[int]) -> Member:
    """The row of a rollout with HierR's reward. labels: (T,) of its completion."""
    masked = bool(reward.masked)
    return Member(
        tool=None if masked else reward.tool_score,
        summary=None if masked else reward.summary_score,
        has_tool=Segment.TOOL in labels,
        has_summary=Segment.SUMMARY in labels,
        needs_call=reward.needs_call,
        opened_call=reward.opened_call,
        calls=MemberCalls(
            **{name: float(getattr(reward, name)) for name in _COLUMNS}, steps=reward.call_steps, scores=reward.call_scores
        ),
    )


_FLAGS = ("has_tool", "has_summary", "needs_call", "opened_call")
_COLUMNS = ("success", "correct", "completeness", "repeats", "errors", "malformed")


def _calls(rows: Sequence[MemberCalls]) -> Calls:
    columns: dict[str, Any] = {name: np.array([getattr(row, name) for row in rows], dtype=np.float64) for name in _COLUMNS}
    return Calls(**columns, steps=tuple(row.steps for row in rows), scores=tuple(row.scores for row in rows))


def deviations(values: Floats) -> tuple[Floats, float]:
    """Distances (n,) of ``values`` (n,) from their mean, and their unbiased standard deviation; all 0 for fewer than two values.

    The values are first measured from the smallest: equal values are then at distance 0 exactly, which (n * x) / n = x
    would not give, and a constant added to all of them is gone before anything is rounded. ``fsum`` rounds once,
    so the order of the values does not matter to the last bit.
    """
    if len(values) < 2:
        return np.zeros(len(values)), 0.0
    offsets = values - values.min()
    distances = offsets - math.fsum(offsets) / len(values)
    return distances, math.sqrt(math.fsum(distances**2) / (len(values) - 1))


def within_groups(groups: Groups, values: Floats, counted: Bools) -> tuple[Floats, Floats]:
    """``deviations`` of ``values`` (B,) in each group, over its counted rows: distances (B,) and the group's deviation (B,).

    Both are 0 in rows that are not counted and in groups with fewer than two counted rows.
    """
    distances, deviation = np.zeros(len(values)), np.zeros(len(values))
    for rows in groups.rows():
        members = rows[counted[rows]]
        distances[members], deviation[members] = deviations(values[members])
    return distances, deviation
