import statistics
from dataclasses import replace
from typing import Any

import pytest
from hierr_builders import call, made, rollout, task

from slca.hierr import JudgeFailure, score
from slca.params import Rewards
from slca.records import CallError, FinishReason, TaskKind

WEATHER = call("weather", city="Rome")
GOLD = task(((WEATHER,),), facts=("sunny",))
RIGHT = rollout(made(WEATHER, result={"sky": "sunny"}), reply="It will be sunny.")
WRONG = rollout(made(call("weather", city="Oslo"), result={"sky": "rainy"}), reply="It will be rainy.", end_state="other")
STRICT = Rewards()


class Broken:
    def rate(self, *_: Any) -> float:
        raise JudgeFailure("no answer in 60 s")


class Constant:
    def __init__(self, rating: float) -> None:
        self.rating = rating

    def rate(self, *_: Any) -> float:
        return self.rating


def test_a_right_rollout() -> None:
    reward = score(GOLD, RIGHT, STRICT)
    assert (reward.tool_score, reward.summary_score, reward.masked, reward.success) == (1.0, 1.0, "", True)
    assert (reward.process, reward.outcome, reward.redundancy, reward.repeats) == (1.0, 1.0, 0.0, 0)
    assert (reward.needs_call, reward.opened_call, reward.has_reply) == (True, True, True)
    assert (reward.calls, reward.tool_turns, reward.sampled_tokens) == (1, 1, 2)
    assert (reward.rollout_id, reward.task_id, reward.kind) == ("t/0", "t", TaskKind.SINGLE)
    assert reward.finish_reason is FinishReason.STOP


def test_the_tool_reward_is_selected_and_the_components_stay() -> None:
    # Wrong value: .10 + .25 + .15 + .30 = .80; the end state differs, so outcome 0
    scores = {name: score(GOLD, WRONG, Rewards(tool_reward=name)) for name in ("process", "outcome", "none")}
    assert {name: reward.tool_score for name, reward in scores.items()} == {"process": 0.8, "outcome": 0.0, "none": 0.0}
    assert {(reward.process, reward.value, reward.success) for reward in scores.values()} == {(0.8, 0.0, False)}
    assert score(GOLD, RIGHT, Rewards(tool_reward="none")).success


def test_success_thresholds_process_or_the_papers_mean() -> None:
    # Process .8 and summary: facts 0 of 1, no value stated: .4
    assert score(GOLD, WRONG, Rewards(success_threshold=0.8)).success
    assert not score(GOLD, WRONG, Rewards(success_threshold=0.81)).success
    # Paper: mean of 1.0 and (3 - 1) / 4 = .5 is .75
    for threshold, expected in ((0.75, True), (0.76, False)):
        params = Rewards(hierr="paper", success_threshold=threshold)
        assert score(GOLD, RIGHT, params, Constant(3.0)).success is expected
    # Exactly on the threshold: everything but half of the values, .10 + .25 + .15 + .10 + .30 = .90
    half = rollout(made(call("weather", city="Rome", day=2)))
    assert score(task(((call("weather", city="Rome", day=1),),)), half, STRICT).success


def test_a_simulator_failure_masks() -> None:
    reward = score(GOLD, replace(RIGHT, simulator_failure=True), STRICT)
    assert (reward.tool_score, reward.summary_score, reward.masked) == (None, None, "simulator failure")
    assert not reward.success


def test_a_judge_failure_masks_the_whole_rollout() -> None:
    # Field case 14
    reward = score(GOLD, RIGHT, STRICT, Broken())
    assert (reward.tool_score, reward.summary_score, reward.masked) == (None, None, "judge failure: no answer in 60 s")
    paper = score(GOLD, RIGHT, Rewards(hierr="paper"), Broken())
    assert (paper.tool_score, paper.summary_score, paper.masked) == (1.0, 0.0, "")  # as published


@pytest.mark.parametrize("rating", [float("nan"), float("inf"), -1.0])
def test_a_senseless_rating_masks(rating: float) -> None:
    # Field case 15
    reward = score(GOLD, RIGHT, STRICT, Constant(rating))
    assert reward.tool_score is None and reward.summary_score is None and reward.masked.startswith("judge failure")


def test_a_judge_that_is_not_needed_cannot_mask() -> None:
    assert score(GOLD, rollout(reply="It is sunny."), STRICT, Broken()).summary_score == 0.0


def test_noise_is_seeded_by_the_rollout_and_not_clipped() -> None:
    noisy = Rewards(judge_noise=1.0)
    ids = [f"t/{member}" for member in range(400)]
    scores = [score(GOLD, replace(RIGHT, rollout_id=name), noisy).summary_score for name in ids]
    assert scores == [score(GOLD, replace(RIGHT, rollout_id=name), noisy).summary_score for name in ids]
    known = [value for value in scores if value is not None]
    assert len(set(known)) == 400
    # 400 draws around 1.0 with deviation 1: mean within 4 / sqrt(400) = .2, deviation within 4 / sqrt(800) = .14
    assert abs(statistics.mean(known) - 1.0) < 0.2 and abs(statistics.stdev(known) - 1.0) < 0.15
    assert min(known) < 0.0 and max(known) > 1.0
    half = score(GOLD, replace(RIGHT, rollout_id=ids[0]), Rewards(judge_noise=0.5)).summary_score
    assert half is not None and half - 1.0 == pytest.approx((known[0] - 1.0) / 2)


def test_noise_leaves_success_and_rule_made_zeros_alone() -> None:
    loud = Rewards(hierr="paper", judge_noise=100.0)
    rewards = [score(GOLD, replace(RIGHT, rollout_id=f"t/{member}"), loud) for member in range(20)]
    assert all(reward.success for reward in rewards)
    assert score(GOLD, rollout(reply="It is sunny."), loud).summary_score == 0.0


def test_facts_of_a_rollout_that_did_not_reply() -> None:
    reward = score(GOLD, rollout(made(WEATHER, error=CallError.NOT_FOUND), finish=FinishReason.FAILURES), STRICT)
    assert (reward.has_reply, reward.opened_call, reward.summary_score, reward.tool_score) == (False, True, 0.0, 1.0)
