"""Intervals of a mean over seeds and tasks, and of the paired difference of two methods (conventions habit 6, field case 23).

Estimator. ``values[s, t]`` is the score of the run with seed s on task t; every seed is scored on the same tasks, so seeds and
tasks are *crossed*. The estimate is the mean over seeds of each seed's mean over tasks. One resample draws S seeds with
replacement, then T tasks with replacement, *the same tasks for every seed* (tasks drawn anew for each seed would treat one hard
task as S independent ones and give too narrow an interval), and takes the same estimate. The interval is the 2.5th to the
97.5th percentile of the resampled estimates (percentile bootstrap; for crossed factors: Owen 2007, "the pigeonhole bootstrap",
which errs on the wide side).

A difference is the same thing done on ``first - second``, seed by seed and task by task, so that what both have in common
cancels.

What to know before quoting one:

* One seed: only tasks are resampled. The interval then says nothing about retraining; ``seeds == 1`` and ``sd is None`` mark
  it.
* Few seeds: the seed part of a percentile interval never reaches beyond the lowest and the highest seed. Taken alone that range
  covers the true mean at most with probability 1 - 2^(1 - S): 75 % for three seeds (``seed_coverage``). The 95 % hold when
  tasks, not seeds, are what varies most.
* Zero width means that all the values are equal, not that nothing is uncertain.

Scores that could not be computed are NaN: they leave their seed's mean, and never count as 0.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEVEL = 0.95
_Z = 1.959963984540054  # 97.5th percentile of the standard normal distribution


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % interval.

    mean: the estimate. sd: unbiased standard deviation of the seeds' means; None for one seed. low, high: ends of the interval.
    seeds: seeds with at least one score. n: tasks with at least one score. All in the unit of the scores.
    """

    mean: float
    sd: float | None
    low: float
    high: float
    seeds: int
    n: int

    @property
    def holds_zero(self) -> bool:
        return self.low <= 0.0 <= self.high


def mean_interval(values: Floats, resamples: int, seed: int) -> Interval | None:
    """Mean of ``values`` (S seeds, T tasks; NaN: not scored) with its interval; None when nothing was scored."""
    present = ~np.isnan(values)
    kept = values[present.any(axis=1)][:, present.any(axis=0)]
    if kept.size == 0:
        return None
    seeds, tasks = kept.shape
    rng = np.random.default_rng(seed)
    seed_draws = _draws(rng, seeds, resamples)
    task_draws = _draws(rng, tasks, resamples)
    here = (~np.isnan(kept)).astype(np.float64)
    scored = task_draws @ here.T  # (resamples, S): how many scores each seed has in each resample
    totals = task_draws @ np.nan_to_num(kept).T
    means = np.divide(totals, scored, out=np.zeros_like(totals), where=scored > 0)
    weights = seed_draws * (scored > 0)
    weight = weights.sum(axis=1)
    usable = weight > 0  # a resample may, rarely, hold nothing but missing scores
    estimates = (means * weights).sum(axis=1)[usable] / weight[usable]
    by_seed = np.nanmean(kept, axis=1)
    low, high = np.percentile(estimates, [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
    sd = float(by_seed.std(ddof=1)) if seeds > 1 else None
    return Interval(float(by_seed.mean()), sd, float(low), float(high), seeds, tasks)


def ratio_interval(cost: Floats, solved: Floats, resamples: int, seed: int) -> Interval | None:
    """Total cost / total solved with its interval; None where nothing is solved. Both (S, T), NaN in the same places.

    Seeds and tasks are drawn as for a mean. A resample in which nothing is solved counts as an infinite cost, so an end may be
    infinite. sd: of the seeds' own ratios; None where a seed solves nothing.
    """
    totals, successes = np.nan_to_num(cost), np.nan_to_num(solved)
    if not successes.any():
        return None
    seeds, tasks = cost.shape
    rng = np.random.default_rng(seed)
    seed_draws = _draws(rng, seeds, resamples)
    task_draws = _draws(rng, tasks, resamples)
    drawn_cost, drawn_solved = (((task_draws @ values.T) * seed_draws).sum(axis=1) for values in (totals, successes))
    ratios = np.divide(drawn_cost, drawn_solved, out=np.full(resamples, np.inf), where=drawn_solved > 0)
    # Not interpolated, since nothing lies between a number and infinity.
    low, high = np.percentile(ratios, [50 * (1 - LEVEL), 50 * (1 + LEVEL)], method="nearest")
    by_seed = successes.sum(axis=1)
    sd = float((totals.sum(axis=1) / by_seed).std(ddof=1)) if seeds > 1 and by_seed.all() else None
    present = int((~np.isnan(solved)).any(axis=0).sum())
    return Interval(float(totals.sum() / successes.sum()), sd, float(low), float(high), seeds, present)


def difference_interval(first: Floats, second: Floats, resamples: int, seed: int) -> Interval | None:
    """Interval of ``first - second``, paired by seed and task.

    first is (S, T). second is (S, T), or (1, T) for a reference that exists once (the warm start): the interval then holds no
    variation of the reference's own training. Raises ValueError for shapes that do not pair.
    """
    if second.shape not in (first.shape, (1, first.shape[1])):
        raise ValueError(
            f"shapes {first.shape} and {second.shape} do not pair: the same tasks and seeds (or one seed) are needed"
        )
    return mean_interval(first - second, resamples, seed)


def wilson(share: float, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share seen over n items: for shares whose single items are not stored (BFCL).

    ``share`` may be a mean over seeds; n stays the number of *distinct* items, since every seed answers the same ones.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, not {n}")
    centre = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * sqrt(max(0.0, share * (1 - share) / n) + _Z**2 / (4 * n**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def seed_coverage(seeds: int) -> float:
    """How often the range from the lowest to the highest of S independent seeds holds their median: 1 - 2^(1 - S)."""
    return float(1 - 2.0 ** (1 - seeds))


def _draws(rng: np.random.Generator, size: int, resamples: int) -> Floats:
    """(resamples, size): how often each of ``size`` things is drawn when ``size`` are drawn with replacement."""
    drawn = rng.integers(size, size=(resamples, size)) + size * np.arange(resamples)[:, None]
    return np.bincount(drawn.ravel(), minlength=resamples * size).reshape(resamples, size).astype(np.float64)
