"""Intervals: hand-derived cases, what is resampled together, and how often an interval holds the truth."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slca.report.intervals import difference_interval, mean_interval, ratio_interval, seed_coverage, wilson


def test_constant_scores_give_zero_width():
    interval = mean_interval(np.full((3, 20), 0.7), resamples=200, seed=1)
    assert interval is not None
    assert (interval.mean, interval.low, interval.high) == pytest.approx((0.7, 0.7, 0.7), abs=1e-12)
    assert interval.sd == pytest.approx(0.0, abs=1e-12)
    assert (interval.seeds, interval.n) == (3, 20)


def test_two_constant_seeds():
    # Every task of seed 0 scores 0, of seed 1 scores 1. A resample is (0,0), (0,1), (1,0) or (1,1): means 0, .5, .5, 1, each 1/4.
    # The 2.5th percentile is 0, the 97.5th is 1. Means of the seeds are 0 and 1: sd = sqrt(.25 + .25) = .7071.
    interval = mean_interval(np.array([[0.0] * 10, [1.0] * 10]), resamples=1000, seed=3)
    assert interval is not None
    assert (interval.mean, interval.low, interval.high) == (0.5, 0.0, 1.0)
    assert interval.sd == pytest.approx(0.5**0.5)


def test_one_seed_resamples_tasks_only():
    # 100 tasks, half of them right: resampled means are binomial(100, .5)/100, whose 2.5 and 97.5 % quantiles are .40 and .60.
    interval = mean_interval(np.array([[0.0, 1.0] * 50]), resamples=20_000, seed=5)
    assert interval is not None
    assert interval.sd is None
    assert interval.seeds == 1
    assert (interval.low, interval.high) == pytest.approx((0.40, 0.60), abs=0.011)


def test_seeds_share_the_resampled_tasks():
    # Equal rows: three seeds that agree on every task tell no more of the tasks than one does, so the interval must not shrink.
    row = np.random.default_rng(0).integers(0, 2, 80).astype(float)
    one = mean_interval(row[None, :], resamples=4000, seed=1)
    three = mean_interval(np.stack([row, row, row]), resamples=4000, seed=2)
    assert one is not None and three is not None
    assert three.high - three.low == pytest.approx(one.high - one.low, rel=0.1)


def test_missing_scores_leave_their_seed_and_are_not_zero():
    # Seed 0: mean of (1, 0) = .5. Seed 1: mean of (1) = 1. Estimate .75; task 2 has no score at all and does not count.
    values = np.array([[1.0, 0.0, np.nan], [1.0, np.nan, np.nan]])
    interval = mean_interval(values, resamples=500, seed=0)
    assert interval is not None
    assert interval.mean == pytest.approx(0.75)
    assert (interval.seeds, interval.n) == (2, 2)
    assert mean_interval(np.full((2, 3), np.nan), resamples=10, seed=0) is None


def test_difference_of_equal_runs_is_exactly_zero():
    values = np.random.default_rng(1).random((3, 50))
    interval = difference_interval(values, values, resamples=300, seed=0)
    assert interval is not None
    assert (interval.mean, interval.low, interval.high) == (0.0, 0.0, 0.0)
    assert interval.holds_zero


def test_pairing_narrows_the_interval_of_correlated_scores():
    rng = np.random.default_rng(2)
    difficulty = rng.normal(0, 1, 200)
    first = difficulty + rng.normal(0.2, 0.2, (3, 200))
    second = difficulty + rng.normal(0.0, 0.2, (3, 200))
    paired = difference_interval(first, second, resamples=2000, seed=0)
    alone = [mean_interval(values, resamples=2000, seed=seed) for seed, values in enumerate((first, second))]
    assert paired is not None
    widths = [one.high - one.low for one in alone if one is not None]
    assert len(widths) == 2
    # Variance of a task's difference: 2 * .04 against 2 * (1 + .04) unpaired: about a fifth of the width, from 3 seeds even less.
    assert paired.high - paired.low < 0.35 * np.hypot(*widths)
    assert not paired.holds_zero


def test_a_single_reference_is_set_against_every_seed():
    # second = .5 everywhere: the difference is the first interval moved by .5, for the same draws.
    first = np.random.default_rng(4).random((3, 40))
    moved = difference_interval(first, np.full((1, 40), 0.5), resamples=400, seed=9)
    plain = mean_interval(first, resamples=400, seed=9)
    assert moved is not None and plain is not None
    assert (moved.mean, moved.low, moved.high) == pytest.approx((plain.mean - 0.5, plain.low - 0.5, plain.high - 0.5))


def test_scores_that_do_not_pair_are_refused():
    with pytest.raises(ValueError, match="do not pair"):
        difference_interval(np.zeros((3, 5)), np.zeros((2, 5)), resamples=10, seed=0)


def test_coverage_where_tasks_vary_most():
    # Crossed model: score = task + small seed effect + noise; the truth is 0. 300 data sets; nominal 95 %, a loose bound.
    rng = np.random.default_rng(11)
    held = 0
    for trial in range(300):
        values = rng.normal(0, 1, (1, 40)) + rng.normal(0, 0.02, (3, 1)) + rng.normal(0, 0.5, (3, 40))
        interval = mean_interval(values, resamples=300, seed=trial)
        held += interval is not None and interval.holds_zero
    assert 0.89 <= held / 300 <= 0.99


def test_coverage_where_three_seeds_vary_most_is_what_the_report_says():
    # Only seeds vary: the percentiles of 27 equally likely draws are the lowest and the highest seed (each 1/27 = 3.7 % > 2.5 %),
    # and the truth (their median) lies between the two unless all three fall on one side: 1 - 2 * (1/2)^3 = 75 %.
    assert seed_coverage(3) == 0.75
    rng = np.random.default_rng(12)
    held = 0
    for trial in range(400):
        interval = mean_interval(np.repeat(rng.normal(0, 1, (3, 1)), 5, axis=1), resamples=400, seed=trial)
        held += interval is not None and interval.holds_zero
    assert 0.68 <= held / 400 <= 0.82  # three standard deviations of 400 draws at .75 are .065


def test_wilson_by_hand():
    # n = 10, share 0: centre and half are both (z^2/20)/(1 + z^2/10) = .192073/1.384146 = .138766, so [0, .277533].
    assert wilson(0.0, 10) == pytest.approx((0.0, 0.277533), abs=1e-5)
    assert wilson(1.0, 10) == pytest.approx((1 - 0.277533, 1.0), abs=1e-5)
    # n = 40, share .5: symmetric; half = sqrt(z^2/(4n) * (1 + z^2/n)) / (1 + z^2/n) = .154948 / sqrt(1.096036) = .148005.
    assert wilson(0.5, 40) == pytest.approx((0.5 - 0.148005, 0.5 + 0.148005), abs=1e-5)
    with pytest.raises(ValueError, match="at least 1"):
        wilson(0.5, 0)


@settings(max_examples=40, deadline=None)
@given(
    scores=st.lists(st.lists(st.floats(-1, 1), min_size=4, max_size=4), min_size=1, max_size=4),
    shift=st.floats(-5, 5),
    seed=st.integers(0, 2**63 - 1),
)
def test_an_interval_lies_within_the_scores_and_moves_with_them(scores, shift, seed):
    values = np.array(scores)
    first = mean_interval(values, resamples=60, seed=seed)
    assert first is not None
    assert values.min() - 1e-9 <= first.low <= first.high <= values.max() + 1e-9
    assert first == mean_interval(values, resamples=60, seed=seed)
    moved = mean_interval(values + shift, resamples=60, seed=seed)
    assert moved is not None
    assert (moved.mean, moved.low, moved.high) == pytest.approx(
        (first.mean + shift, first.low + shift, first.high + shift), abs=1e-9
    )


def test_cost_per_solved_is_a_ratio_of_totals():
    # Seed 0 spends 1 + 3 and solves one task, seed 1 spends 2 + 2 and solves two: 8 / 3; the seeds' own ratios are 4 and 2.
    cost, solved = np.array([[1.0, 3.0], [2.0, 2.0]]), np.array([[0.0, 1.0], [1.0, 1.0]])
    interval = ratio_interval(cost, solved, resamples=2000, seed=0)
    assert interval is not None
    assert interval.mean == pytest.approx(8 / 3)
    assert interval.sd == pytest.approx(2**0.5)
    # The dearest resample draws seed 0 and its unsolved task alone (1/4 x 1/4 of them): no end. The cheapest: 2 / 1.
    assert (interval.low, interval.high) == (pytest.approx(2.0), np.inf)


def test_cost_per_solved_leaves_out_what_was_not_scored_and_is_unknown_where_nothing_is_solved():
    cost, solved = np.array([[5.0, np.nan, 3.0]]), np.array([[1.0, np.nan, 1.0]])
    interval = ratio_interval(cost, solved, resamples=50, seed=0)
    assert interval is not None
    assert (interval.mean, interval.n, interval.sd) == (4.0, 2, None)
    assert ratio_interval(cost, np.array([[0.0, np.nan, 0.0]]), resamples=50, seed=0) is None
