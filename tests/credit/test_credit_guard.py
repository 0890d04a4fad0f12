"""The omission guard: when it fires, what it writes, and which of its forms keeps the lock."""

from dataclasses import replace

import numpy as np
from credit_cases import make_groups, some_groups
from hypothesis import given
from hypothesis import strategies as st

from slca.credit import METHODS, Settings, guarded

# Row 0 calls well; 1 omits a needed call and replies well; 2 rightly calls nothing; 3 calls and its total is negative
# (a noisy judge); 4 omits and is masked.
CASES = make_groups(
    (0, 1.0, 0.5, "TS"), (0, 0.25, 1.0, "S"), (0, 1.0, 0.5, "S"), (0, 0.25, -0.75, "TS"), (0, None, None, "S"), omitted=(1, 4)
)  # fmt: skip


def test_tool_side_fires_on_omissions_alone():
    groups = guarded(CASES, "tool_side")
    assert groups.tool[:4].tolist() == [1.0, 0.0, 1.0, 0.25]
    assert groups.summary[:4].tolist() == [0.5, -0.5, 0.5, -0.75]


def test_paper_fires_on_negative_totals_too():
    # Row 3: total 0.25 - 0.75 = -0.5 takes the place of the summary score, and the tool score becomes 0.
    groups = guarded(CASES, "paper")
    assert groups.tool[:4].tolist() == [1.0, 0.0, 1.0, 0.0]
    assert groups.summary[:4].tolist() == [0.5, -0.5, 0.5, -0.5]
    # A total that is negative by another amount is kept; it is -0.5 for omissions only.
    worse = guarded(make_groups((0, 0.5, -1.5, "TS"), (0, 0.0, -0.25, "S")), "paper")
    assert worse.summary.tolist() == [-1.0, -0.25]


def test_off_changes_nothing():
    assert guarded(CASES, "off") is CASES


def test_masked_rollouts_stay_masked():
    for guard in ("tool_side", "paper", "off"):
        groups = guarded(CASES, guard)
        assert np.isnan(groups.tool[4])
        assert np.isnan(groups.summary[4])


@given(some_groups(), st.sampled_from(["tool_side", "paper", "off"]))
def test_guarding_twice_is_guarding_once(groups, guard):
    once = guarded(groups, guard)
    twice = guarded(once, guard)
    assert np.array_equal(once.tool, twice.tool, equal_nan=True)
    assert np.array_equal(once.summary, twice.summary, equal_nan=True)


def test_an_omission_with_a_fluent_reply_is_discouraged():
    # Unguarded, the omission (0.25 + 1) beats the poor call (0.5 + 0.25). Guarded it is worth -0.5 on its only tokens.
    groups = make_groups((0, 0.5, 0.25, "TS"), (0, 0.25, 1.0, "S"), omitted=(1,))
    for method in METHODS:
        if method == "rltr":  # no summary is trained
            continue
        assert METHODS[method](groups, Settings(omission_guard="off", toolpo_success="judge")).summary[1] > 0
        assert METHODS[method](groups, Settings(omission_guard="tool_side", toolpo_success="judge")).summary[1] < 0
        assert METHODS[method](groups, Settings(omission_guard="paper", toolpo_success="judge")).summary[1] < 0


def test_only_the_papers_guard_lets_a_summary_reward_reach_tool_tokens():
    # A worse summary turns row 0's total negative. The paper's guard then takes away its tool score of 0.5.
    groups = make_groups((0, 0.5, 0.0, "TS"), (0, 0.25, 0.0, "TS"))
    worse = replace(groups, summary=np.array([-0.75, 0.0]))
    for guard, locked in (("paper", False), ("tool_side", True), ("off", True)):
        settings = Settings(omission_guard=guard)
        before, after = METHODS["slca"](groups, settings).tool, METHODS["slca"](worse, settings).tool
        assert np.array_equal(before, after) == locked
