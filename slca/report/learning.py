"""What the learning curves say: smoothed curves, and how soon a method reaches the level at which the reference ends.

Curves are the training rollouts of each step (sampled at temperature 1 on that step's tasks), so they are noisy and say nothing
of held-out tasks. Smoothing is a trailing mean over ``WINDOW`` steps; the first WINDOW - 1 steps have no smoothed value, so
that one lucky step at the start cannot count as "reached". The level is the reference's mean over its last ``LAST`` steps and
all its seeds; the first step at which a method's smoothed mean over seeds is at least the level counts. The first crossing of a
noisy curve comes early on average: the reference's own first crossing is reported beside it for comparison.
"""

from dataclasses import dataclass

import numpy as np

from slca.report.intervals import Floats

WINDOW = 5
LAST = 10


@dataclass(frozen=True)
class Reached:
    """The first step at which a curve reaches a level: its number, and its share of all steps; None for both if it never does."""

    step: int | None
    share: float | None


def trailing_mean(curves: Floats, window: int = WINDOW) -> Floats:
    """Mean of each value and the ``window - 1`` before it, along the last axis; NaN where fewer steps have passed.

    curves: (..., steps). Steps without a value (NaN) are left out of their means. A window longer than the curve is cut to it.
    """
    window = min(window, curves.shape[-1])
    smoothed = np.full(curves.shape, np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(curves, window, axis=-1)
    scored = (~np.isnan(windows)).sum(axis=-1)
    totals = np.nansum(windows, axis=-1)
    smoothed[..., window - 1 :] = np.divide(totals, scored, out=np.full(totals.shape, np.nan), where=scored > 0)
    return smoothed


def seed_mean(curves: Floats) -> Floats:
    """Mean over seeds, (S, steps) -> (steps,); a seed without a value at a step is left out there, NaN where none has one."""
    scored = (~np.isnan(curves)).sum(axis=0)
    totals = np.nansum(curves, axis=0)
    means: Floats = np.divide(totals, scored, out=np.full(totals.shape, np.nan), where=scored > 0)
    return means


def final_level(curves: Floats, last: int = LAST) -> float:
    """Mean over the last ``last`` steps (all, if there are fewer) and all seeds of (S, steps) curves; NaN without a value."""
    tail = curves[:, -last:]
    return float(np.nanmean(tail)) if not np.isnan(tail).all() else float("nan")


def first_reaching(curves: Floats, steps: list[int], level: float, window: int = WINDOW) -> Reached:
    """First step at which the seeds' mean of the smoothed (S, steps) curves is at least ``level``.

    steps: the number of each column, ascending. share is the step's place among all steps (1.0: the last one).
    """
    # Less a rounding error, so that a flat curve reaches its own mean; NaN >= x is False.
    reached = np.flatnonzero(seed_mean(trailing_mean(curves, window)) >= level - 1e-9)
    if not reached.size:
        return Reached(None, None)
    place = int(reached[0])
    return Reached(steps[place], (place + 1) / len(steps))
