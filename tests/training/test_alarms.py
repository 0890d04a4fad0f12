"""A run that collapses stops with the reason; one that is well, or only has a bad step, does not."""

import math
from typing import Any

import pytest

from slca.errors import RunStopped
from slca.params import Params
from slca.training.alarms import PATIENCE, Alarms, limits_of

WELL = {"masked": 0.0, "zero_variance_both": 0.1, "call_rate": 0.9, "clip_fraction": 0.01, "kl": 0.02}
TRAIN = {"max_zero_variance": 0.8, "min_call_rate": 0.1, "max_clip_fraction": 0.3, "max_kl": 0.5}


def alarms(**train: Any) -> Alarms:
    return Alarms("slca-0", limits_of(Params.model_validate({"train": TRAIN | train})))


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("zero_variance_both", 0.9, "zero_variance_both was for 10 steps in a row above train.max_zero_variance = 0.8, last 0.9"),
        ("call_rate", 0.0, "call_rate was for 10 steps in a row below train.min_call_rate = 0.1, last 0"),
        ("clip_fraction", 0.4, "clip_fraction was for 10 steps in a row above train.max_clip_fraction = 0.3, last 0.4"),
        ("kl", 3.0, "kl was for 10 steps in a row above train.max_kl = 0.5, last 3"),
    ],
)
def test_a_number_beyond_its_limit_for_long_stops_the_run_with_the_reason(column: str, value: float, reason: str) -> None:
    watch = alarms()
    for step in range(1, PATIENCE):
        watch.check(step, WELL | {column: value})
    with pytest.raises(RunStopped, match=f"slca-0 stopped at step {PATIENCE}: {reason}"):
        watch.check(PATIENCE, WELL | {column: value})


def test_a_single_good_step_starts_the_count_anew() -> None:
    watch = alarms()
    for step in range(1, 50):
        watch.check(step, WELL | {"call_rate": 0.5 if step % PATIENCE == 0 else 0.0})


def test_unscorable_rollouts_stop_at_once_and_say_why() -> None:
    with pytest.raises(RunStopped, match=r"masked was above rewards.max_unscorable = 0.2, last 0.5 \(judge failure\)"):
        alarms().check(1, WELL | {"masked": 0.5}, " (judge failure)")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_number_that_is_not_finite_stops_at_once(value: float) -> None:
    with pytest.raises(RunStopped, match="step 3: loss is"):
        alarms().check(3, {"loss": value})


def test_limits_that_are_not_set_never_stop_a_run() -> None:
    watch = Alarms("slca-0", limits_of(Params()))
    for step in range(1, 3 * PATIENCE):
        watch.check(step, {"zero_variance_both": 1.0, "call_rate": 0.0, "clip_fraction": 1.0, "kl": 99.0, "masked": 0.1})


def test_steps_before_a_crash_count_after_it() -> None:
    watch = alarms()
    for _ in range(PATIENCE - 1):
        watch.remember(WELL | {"call_rate": 0.0})
    with pytest.raises(RunStopped, match="call_rate was for 10 steps"):
        watch.check(PATIENCE, WELL | {"call_rate": 0.0})
