"""Smoothing and steps-to-level, on curves whose answers are counted by hand."""

import numpy as np
import pytest

from slca.report.learning import Reached, final_level, first_reaching, seed_mean, trailing_mean


def test_trailing_mean_has_no_value_before_its_window_is_full():
    smoothed = trailing_mean(np.array([[1.0, 2.0, 3.0, 7.0]]), window=3)
    assert np.isnan(smoothed[0, :2]).all()
    assert smoothed[0, 2:].tolist() == [2.0, 4.0]  # (1+2+3)/3, (2+3+7)/3


def test_trailing_mean_leaves_out_steps_without_a_value():
    smoothed = trailing_mean(np.array([2.0, np.nan, 4.0, np.nan, np.nan, np.nan]), window=3)
    assert smoothed[2:5].tolist() == [3.0, 4.0, 4.0]
    assert np.isnan(smoothed[5])


def test_a_curve_shorter_than_the_window_is_smoothed_as_a_whole():
    assert trailing_mean(np.array([1.0, 3.0]), window=5)[-1] == 2.0


def test_seed_mean_skips_missing_seeds():
    assert seed_mean(np.array([[1.0, np.nan], [3.0, 5.0]])).tolist() == [2.0, 5.0]


def test_final_level_is_over_last_steps_and_seeds():
    # last 2 steps of two seeds: (3 + 4 + 5 + 8) / 4 = 5
    assert final_level(np.array([[0.0, 3.0, 4.0], [9.0, 5.0, 8.0]]), last=2) == 5.0


def test_first_step_that_reaches_the_level():
    # Smoothed over 2: -, .1, .3, .5, .7. The level .5 is reached at the 4th of 5 steps, numbered 40.
    curve = np.array([[0.0, 0.2, 0.4, 0.6, 0.8]])
    assert first_reaching(curve, [10, 20, 30, 40, 50], level=0.5, window=2) == Reached(40, 0.8)


def test_one_lucky_first_step_does_not_count():
    assert first_reaching(np.array([[1.0, 0.0, 0.0, 0.0]]), [1, 2, 3, 4], level=0.6, window=2) == Reached(None, None)


def test_seeds_are_averaged_before_the_level_is_asked_for():
    # Seed 0 alone would reach .8 at step 2; the mean of both (.5, .5, .9) reaches it at step 3.
    curves = np.array([[0.2, 1.0, 1.0], [0.8, 0.0, 0.8]])
    assert first_reaching(curves, [1, 2, 3], level=0.8, window=1) == Reached(3, 1.0)


@pytest.mark.parametrize("level", [2.0, float("nan")])
def test_a_level_that_is_never_reached(level):
    assert first_reaching(np.array([[0.1, 0.2, 0.3]]), [1, 2, 3], level=level, window=1) == Reached(None, None)


def test_a_flat_curve_reaches_its_own_level():
    curve = np.full((3, 40), 0.1)
    assert first_reaching(curve, list(range(1, 41)), final_level(curve)).step == 5  # the first full window
