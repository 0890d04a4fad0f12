"""Builders that the credit tests share."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from slca.credit import Calls, Groups, SegmentAdvantages
from slca.records import FinishReason, Reward, Segment, TaskKind

ENV, TOOL, SUMMARY = Segment.ENV, Segment.TOOL, Segment.SUMMARY
SEGMENTS = {"T": (True, False), "S": (False, True), "TS": (True, True), "": (False, False)}


def make_calls(*rows: Sequence[tuple[int, float]], **columns: Sequence[float]) -> Calls:
    """Calls from each rollout's (step, score) pairs; columns that are not given are 0."""
    names = ("success", "correct", "completeness", "repeats", "errors", "malformed")
    return Calls(
        **{name: np.array(columns.get(name, [0] * len(rows)), dtype=np.float64) for name in names},
        steps=tuple(tuple(step for step, _ in row) for row in rows),
        scores=tuple(tuple(score for _, score in row) for row in rows),
    )


def make_groups(*rows: tuple[int, float | None, float | None, str], omitted: Sequence[int] = ()) -> Groups:
    """Groups from rows of (group, tool reward, summary reward, segments); None masks; omitted rows needed a call and opened none.

    A rollout with TOOL tokens made one call in step 0, whose own score is the tool reward.

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
        calls=make_calls(*([(0, float(row[1] or 0.0))] if tool else [] for row, tool in zip(rows, has_tool, strict=True))),
    )


def labels_of(groups: Groups) -> list[list[int]]:
    """Token labels that agree with has_tool and has_summary: a template token, the turns, tool results between them."""
    return [
        [ENV, *([TOOL, TOOL, TOOL, ENV, ENV] if tool else []), *([SUMMARY, SUMMARY] if summary else [])]
        for tool, summary in zip(groups.has_tool, groups.has_summary, strict=True)
    ]


def call_of(groups: Groups) -> list[list[int]]:
    """The call of each token of ``labels_of``: the first two TOOL tokens of a rollout with calls belong to its first call."""
    assert groups.calls is not None
    rows = zip(labels_of(groups), groups.has_tool, groups.calls.steps, strict=True)
    return [[0 if tool and steps and place in (1, 2) else -1 for place in range(len(each))] for each, tool, steps in rows]


def ids_of(groups: Groups) -> list[str]:
    return [f"rollout-{row}" for row in range(len(groups.group))]


def same(left: SegmentAdvantages, right: SegmentAdvantages) -> bool:
    """Equal to the last bit, but for the sign of 0."""
    equal = np.array_equal(left.tool, right.tool) and np.array_equal(left.summary, right.summary)
    return bool(equal and left.calls == right.calls)


def a_reward(rollout_id: str = "r0", **changes: Any) -> Reward:
    fields: dict[str, Any] = {
        "rollout_id": rollout_id, "task_id": "t0", "member": 0, "kind": TaskKind.SINGLE, "tool_score": 0.5, "summary_score": 0.25,
        "masked": "", "needs_call": True, "opened_call": True, "has_reply": True, "format": 1.0, "name": 1.0, "key": 1.0,
        "value": 0.0, "parallel": 1.0, "process": 0.5, "outcome": 0.0, "success": False, "call_steps": (0,),
        "call_scores": (0.5,), "correct": 0, "completeness": 0.0, "errors": 0, "malformed": 0, "calls": 1, "redundancy": 0.0,
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
    has_tool = column(st.booleans(), np.bool_)
    made = [draw(st.lists(st.tuples(st.integers(0, 2), st.floats(0, 1)), max_size=3)) if tool else [] for tool in has_tool]
    counts = {name: column(st.integers(0, 3), np.float64) for name in ("correct", "repeats", "errors", "malformed")}
    shares = {name: column(st.floats(0, 1), np.float64) for name in ("success", "completeness")}
    return Groups(
        group=np.array(draw(st.permutations([number for number, size in enumerate(sizes) for _ in range(size)])), dtype=np.int64),
        tool=np.where(scorable, column(rewards, np.float64), np.nan),
        summary=np.where(scorable, column(rewards, np.float64), np.nan),
        has_tool=has_tool,
        has_summary=column(st.booleans(), np.bool_),
        scorable=scorable,
        needs_call=column(st.booleans() if needs_call else st.just(False), np.bool_),
        opened_call=column(st.booleans(), np.bool_),
        calls=make_calls(*made, **counts, **shares),
    )
