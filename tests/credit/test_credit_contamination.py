"""Contamination on numbers derived by hand, its degenerate cases, and the signal counts."""

import numpy as np
import pytest
from credit_cases import make_groups, some_groups
from hypothesis import given
from hypothesis import strategies as st

from slca.credit import METHODS, Settings, contamination, contamination_of, signal

ONE = np.zeros(4, dtype=np.int64)
OWN, OTHER = np.array([0.0, 1.0, 0.0, 1.0]), np.array([0.0, 0.0, 1.0, 1.0])  # uncorrelated, each of variance 1/4


def test_the_share_is_that_of_the_variance():
    # A = own + other: 1/4 of 1/4 + 1/4. A = 2 own + other: 1/4 of 1 + 1/4. A = own - 3 other: 9/4 of 1/4 + 9/4.
    assert contamination(ONE, OWN + OTHER, OWN, OTHER) == pytest.approx(1 / 2)
    assert contamination(ONE, 2 * OWN + OTHER, OWN, OTHER) == pytest.approx(1 / 5)
    assert contamination(ONE, OWN - 3 * OTHER, OWN, OTHER) == pytest.approx(9 / 10)
    assert contamination(ONE, OTHER, OWN, OTHER) == pytest.approx(1.0)
    assert contamination(ONE, OWN, OWN, OTHER) == 0.0


def test_noise_that_neither_reward_explains_is_not_contamination():
    # (1, -1, -1, 1) is uncorrelated with both; A = other + noise has variance 1/4 + 1, of which other explains 1/4.
    noise = np.array([1.0, -1.0, -1.0, 1.0])
    assert contamination(ONE, noise, OWN, OTHER) == 0.0
    assert contamination(ONE, OTHER + noise, OWN, OTHER) == pytest.approx(1 / 5)


def test_what_both_rewards_explain_is_credited_to_the_own_reward():
    # other = own + (0, 0, 1, 1): only the part beyond own counts, 1/4 of the variance of A = own + other = 2 own + (0, 0, 1, 1).
    assert contamination(ONE, OWN + (OWN + OTHER), OWN, OWN + OTHER) == pytest.approx(1 / 5)
    assert contamination(ONE, 3 * OWN, OWN, 2 * OWN) == 0.0  # collinear: there is nothing beyond own


def test_groups_have_slopes_of_their_own():
    # A = own in one group and 5 own in the other is no contamination, though one common slope would leave a rest.
    group = np.repeat([0, 1], 4)
    advantages = np.concatenate([OWN, 5 * OWN])
    assert contamination(group, advantages, np.tile(OWN, 2), np.tile(OWN * OTHER, 2)) == 0.0
    # Shares add by variance: 1/4 of 1/2 in the first group, none of 25/4 in the second.
    advantages = np.concatenate([OWN + OTHER, 5 * OWN])
    assert contamination(group, advantages, np.tile(OWN, 2), np.tile(OTHER, 2)) == pytest.approx(0.25 / (0.5 + 6.25))


@pytest.mark.parametrize(
    ("advantages", "own", "other"),
    [
        (np.zeros(4), OWN, OTHER),
        (OWN, OWN, np.ones(4)),
        (np.full(4, np.nan), OWN, OTHER),
        (np.zeros(0), np.zeros(0), np.zeros(0)),
    ],
)
def test_without_variance_there_is_no_contamination(advantages, own, other):
    assert contamination(ONE[: len(own)], advantages, own, other) == 0.0


def test_a_constant_own_reward_takes_nothing_out():
    assert contamination(ONE, OTHER, np.ones(4), OTHER) == pytest.approx(1.0)


def test_rows_with_nan_are_left_out():
    group = np.zeros(5, dtype=np.int64)
    own, other = np.append(OWN, np.nan), np.append(OTHER, 100.0)
    assert contamination(group, np.append(OWN + OTHER, 7.0), own, other) == pytest.approx(1 / 2)


def test_methods_by_name():
    # Rewards as above in both roles. routed_joint takes the other reward's scale, but no part of it varies with the other reward.
    groups = make_groups(*((0, own, other, "TS") for own, other in zip(OWN, OTHER, strict=True)))
    for method, share in (("grpo", 0.5), ("gdpo", 0.5), ("routed_joint", 0.0), ("slca", 0.0)):
        assert contamination_of(method, groups, Settings()) == pytest.approx({"tool": share, "summary": share})


def test_only_rollouts_with_the_segment_count():
    # TOOL tokens exist in the last two rows: own differs, other does not. All four have a summary.
    rows = zip(OWN, OTHER, ["S", "S", "TS", "TS"], strict=True)
    groups = make_groups(*((0, own, other, segments) for own, other, segments in rows))
    assert contamination_of("grpo", groups, Settings()) == pytest.approx({"tool": 0.0, "summary": 0.5})


@given(
    some_groups(st.integers(-20, 20).map(lambda number: number / 20)),
    st.sampled_from(["all", "members"]),
    st.sampled_from(["tool_side", "paper", "off"]),
)
def test_slca_is_clean_by_construction_and_shares_are_shares(groups, presence, guard):
    settings = Settings(presence_tool=presence, omission_guard=guard)
    assert contamination_of("slca", groups, settings) == {"tool": 0.0, "summary": 0.0}
    for method in METHODS:
        assert all(0.0 <= share <= 1.0 + 1e-9 for share in contamination_of(method, groups, settings).values())


def test_signal_counts_groups_without_variance_and_presence():
    groups = make_groups(
        (0, 1.0, 0.5, "TS"), (0, 0.0, 0.5, "TS"),  # tool varies, summary does not
        (1, 0.5, 0.5, "TS"), (1, 0.5, 0.5, "S"),  # nothing varies
        (2, 0.0, 1.0, "TS"), (2, 1.0, 0.0, "TS"),  # both vary, their sum does not
        (3, 1.0, 1.0, "TS"), (3, None, None, ""),  # one member left
    )  # fmt: skip
    assert signal(groups, Settings()) == {
        "zero_variance_tool": 2 / 4,  # groups 1, 3
        "zero_variance_summary": 3 / 4,  # groups 0, 1, 3
        "zero_variance_sum": 3 / 4,  # groups 1, 2, 3
        "zero_variance_both": 2 / 4,  # groups 1, 3
        "presence_tool": 6 / 8,
        "presence_summary": 7 / 8,
        "masked": 1 / 8,
    }


def test_signal_counts_what_the_guard_leaves():
    # Equal rewards, but row 1 omitted its call: 1 against 0 and 0.5 against -0.5.
    groups = make_groups((0, 1.0, 0.5, "TS"), (0, 1.0, 0.5, "S"), omitted=(1,))
    assert signal(groups, Settings())["zero_variance_both"] == 0.0
    assert signal(groups, Settings(omission_guard="off"))["zero_variance_both"] == 1.0
