"""The input of the rules: what is grouped, what is masked, what is refused, and the statistics inside a group."""

import math
from dataclasses import replace

import numpy as np
import pytest
from credit_cases import ENV, SUMMARY, TOOL, a_reward, dyadic, finite, make_groups
from hypothesis import given
from hypothesis import strategies as st

from slca.credit import groups_from_rewards
from slca.credit.group import deviations, within_groups
from slca.errors import DataError


def test_groups_are_tasks_in_order_of_first_appearance():
    rewards = [a_reward("a", task_id="z"), a_reward("b", task_id="m"), a_reward("c", task_id="z", needs_call=False)]
    groups = groups_from_rewards(rewards, [[ENV, TOOL, SUMMARY], [ENV, SUMMARY], [ENV]])
    assert groups.group.tolist() == [0, 1, 0]
    assert groups.tool.tolist() == [0.5] * 3
    assert groups.summary.tolist() == [0.25] * 3
    assert groups.has_tool.tolist() == [True, False, False]
    assert groups.has_summary.tolist() == [True, True, False]
    assert groups.needs_call.tolist() == [True, True, False]
    assert groups.scorable.all()


@pytest.mark.parametrize(
    "fault",
    [
        {"tool_score": None, "masked": "simulator failure"},
        {"summary_score": None, "masked": "judge failure"},
        {"summary_score": math.nan},  # case 15: the same as None
        {"masked": "judge failure"},  # a score that came with a reason not to trust it
    ],
)
def test_a_rollout_without_one_reward_is_masked_as_a_whole(fault):
    groups = groups_from_rewards([a_reward("a"), a_reward("b", **fault)], [[TOOL, SUMMARY]] * 2)
    assert groups.scorable.tolist() == [True, False]
    assert np.isnan(groups.tool).tolist() == np.isnan(groups.summary).tolist() == [False, True]


def test_refused_inputs_name_their_fault():
    with pytest.raises(DataError, match="2 rewards but labels of 1 rollouts"):
        groups_from_rewards([a_reward("a"), a_reward("b")], [[TOOL]])
    with pytest.raises(DataError, match="'a' has two rewards"):  # case 16: turns are not members of their own
        groups_from_rewards([a_reward("a"), a_reward("a")], [[TOOL], [SUMMARY]])
    with pytest.raises(DataError, match="B at least 1"):
        groups_from_rewards([], [])
    groups = make_groups((0, 1.0, 0.0, "TS"), (0, 0.5, 0.0, "TS"))
    with pytest.raises(DataError, match=r"'tool': \(1,\)"):
        replace(groups, tool=np.zeros(1))
    with pytest.raises(DataError, match="row 1: summary is nan where scorable is True"):
        replace(groups, summary=np.array([0.0, np.nan]))
    with pytest.raises(DataError, match=r"row 0: tool is 1\.0 where scorable is False"):
        replace(groups, scorable=np.array([False, True]))
    with pytest.raises(DataError, match="row 0: tool is inf"):
        replace(groups, tool=np.array([np.inf, 0.0]))


def test_deviations_by_hand():
    # Mean 2; distances -2, 0, 2; unbiased variance (4 + 0 + 4) / 2 = 4.
    distances, deviation = deviations(np.array([0.0, 2.0, 4.0]))
    assert distances.tolist() == [-2.0, 0.0, 2.0]
    assert deviation == 2.0


@pytest.mark.parametrize("values", [[], [7.0]])
def test_fewer_than_two_values_do_not_deviate(values):
    distances, deviation = deviations(np.array(values))
    assert distances.tolist() == [0.0] * len(values)
    assert deviation == 0.0


@given(finite, st.integers(2, 16))
def test_equal_values_do_not_deviate_at_all(value, count):
    distances, deviation = deviations(np.full(count, value))
    assert not distances.any()
    assert deviation == 0.0


@given(st.lists(finite, min_size=2, max_size=9), st.randoms(use_true_random=False))
def test_the_order_of_the_values_does_not_matter_to_the_last_bit(values, random):
    order = list(range(len(values)))
    random.shuffle(order)
    distances, deviation = deviations(np.array(values))
    shuffled, same_deviation = deviations(np.array(values)[order])
    assert shuffled.tolist() == distances[order].tolist()
    assert same_deviation == deviation


@given(st.lists(dyadic, min_size=2, max_size=9), dyadic)
def test_a_constant_is_gone_before_anything_is_rounded(values, constant):
    distances, deviation = deviations(np.array(values))
    shifted, same_deviation = deviations(np.array(values) + constant)
    assert shifted.tolist() == distances.tolist()
    assert same_deviation == deviation


@given(st.lists(finite, min_size=2, max_size=9))
def test_deviation_agrees_with_numpy(values):
    distances, deviation = deviations(np.array(values))
    assert deviation == pytest.approx(np.std(values, ddof=1), rel=1e-9, abs=1e-9)
    assert distances == pytest.approx(np.array(values) - np.mean(values), rel=1e-9, abs=1e-9)


def test_statistics_stay_inside_their_group_and_count_only_what_is_counted():
    groups = make_groups((5, 1.0, 0.0, "T"), (2, 9.0, 0.0, "T"), (5, 3.0, 0.0, "T"), (5, 100.0, 0.0, "T"), (2, 9.0, 0.0, "T"))
    counted = np.array([True, True, True, False, True])
    # Group 5 counts 1 and 3: mean 2, deviation sqrt((1 + 1) / 1). Group 2 counts 9 and 9.
    distances, deviation = within_groups(groups, groups.tool, counted)
    assert distances.tolist() == [-1.0, 0.0, 1.0, 0.0, 0.0]
    assert deviation.tolist() == [math.sqrt(2), 0.0, math.sqrt(2), 0.0, 0.0]
