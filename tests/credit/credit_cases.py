"""Builders that the credit tests share."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from slca.credit import Groups, SegmentAdvantages
from slca.records import FinishReason, Reward, Segment, TaskKind

ENV, TOOL, SUMMARY = Segment.ENV, Segment.TOOL, Segment.SUMMARY
SEGMENTS = {"T": (True, False), "S": (False, True), "TS": (True, True), "": (False, False)}


def make_groups(*rows: tuple[int, float | None, float | None, str], omitted: Sequence[int] = ()) -> Groups:
    """Groups from rows of (group, tool reward, summary reward, segments); None masks; omitted rows needed a call and opened none.

    Every other row opened a call where it has TOOL tokens, and its task needed none.
    """
    has_tool, has_summary = zip(*(SEGMENTS[row[3]] for row in rows), strict=True)
    scorable = np.array([row[1] is not None and row[2] is not None for row in rows])
    return Groups(
        group=np.array([row[0] for row in rows], dtype=np.int64),
        tool=np.array([row[1] if ok else np.nan for row, ok in zip(rows, scorable, strict=True)], dtype=np.float64),
        summary=np.array([row[2] if ok else np.nan for row, ok in zip(rows, scorable, strict=True)], dtype=np.float64),
        has_tool=np.array(has_tool),
        has_summary=np.array(has_summary),
        scorable=scorable,
        needs_call=np.array([row in omitted for row in range(len(rows))]),
        opened_call=np.array(has_tool),
    )


def take(groups: Groups, rows: Any) -> Groups:
    """The rows of ``groups`` that an index array or a mask picks."""
    return Groups(**{name: values[rows] for name, values in vars(groups).items()})


def labels_of(groups: Groups) -> list[list[int]]:
    """Token labels that agree with has_tool and has_summary: a template token, the turns, tool results between them."""
    return [
        [ENV, *([TOOL, TOOL, TOOL, ENV, ENV] if tool else []), *([SUMMARY, SUMMARY] if summary else [])]
        for tool, summary in zip(groups.has_tool, groups.has_summary, strict=True)
    ]


def ids_of(groups: Groups) -> list[str]:
    return [f"rollout-{row}" for row in range(len(groups.group))]


def same(left: SegmentAdvantages, right: SegmentAdvantages) -> bool:
    """Equal to the last bit, but for the sign of 0."""
    return bool(np.array_equal(left.tool, right.tool) and np.array_equal(left.summary, right.summary))


def a_reward(rollout_id: str = "r0", **changes: Any) -> Reward:
    fields: dict[str, Any] = {
        "rollout_id": rollout_id, "task_id": "t0", "member": 0, "kind": TaskKind.SINGLE, "tool_score": 0.5, "summary_score": 0.25,
        "masked": "", "needs_call": True, "opened_call": True, "has_reply": True, "format": 1.0, "name": 1.0, "key": 1.0,
        "value": 0.0, "parallel": 1.0, "process": 0.5, "outcome": 0.0, "success": False, "calls": 1, "redundancy": 0.0,
        "repeats": 0, "tool_turns": 1, "sampled_tokens": 9, "finish_reason": FinishReason.STOP,
    }  # fmt: skip
    return Reward(**{**fields, **changes})


dyadic = st.integers(-64, 64).map(lambda number: number / 64)  # sums and differences of these are exact
finite = st.floats(-1e3, 1e3)


@st.composite
def some_groups(draw: st.DrawFn, rewards: st.SearchStrategy[float] = finite, needs_call: bool = True) -> Groups:
    """One to three groups of one to six rollouts, interleaved, with any mix of segments, omissions and masked members."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    count = sum(sizes)

    def column(values: st.SearchStrategy[Any], kind: type) -> Any:
        return np.array(draw(st.lists(values, min_size=count, max_size=count)), dtype=kind)

    scorable = column(st.sampled_from([True, True, True, False]), np.bool_)
    return Groups(
        group=np.array(draw(st.permutations([number for number, size in enumerate(sizes) for _ in range(size)])), dtype=np.int64),
        tool=np.where(scorable, column(rewards, np.float64), np.nan),
        summary=np.where(scorable, column(rewards, np.float64), np.nan),
        has_tool=column(st.booleans(), np.bool_),
        has_summary=column(st.booleans(), np.bool_),
        scorable=scorable,
        needs_call=column(st.booleans() if needs_call else st.just(False), np.bool_),
        opened_call=column(st.booleans(), np.bool_),
    )
