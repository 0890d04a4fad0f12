"""When a training run stops itself: a number that stays beyond its limit says that going on would teach or report nonsense.

* masked: rollouts that could not be scored; at once, since the rest are no fair sample (``rewards.max_unscorable``).
* zero_variance_both: groups whose rewards are all equal teach nothing (``train.max_zero_variance``).
* call_rate: a policy that no longer calls tools has collapsed (``train.min_call_rate``).
* clip_fraction: tokens beyond the clip range: the steps are too large (``train.max_clip_fraction``).
* kl: the policy has left its reference, in nats per token; measured where ``train.kl`` is not 0 (``train.max_kl``).
* any number that is not finite; at once.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from slca.errors import RunStopped
from slca.params import Params

PATIENCE = 10
"""Steps in a row beyond a limit before a run stops, where it does not stop at once."""


@dataclass(frozen=True)
class Limit:
    """column: of a step's row. upper: whether it is the most that is allowed, or the least."""

    column: str
    value: float
    upper: bool
    parameter: str
    patience: int = PATIENCE

    def is_broken(self, row: Mapping[str, float]) -> bool:
        return row[self.column] > self.value if self.upper else row[self.column] < self.value


def limits_of(params: Params) -> tuple[Limit, ...]:
    """The limits that are set."""
    train = params.train
    limits = [
        Limit("masked", params.rewards.max_unscorable, True, "rewards.max_unscorable", patience=1),
        Limit("zero_variance_both", train.max_zero_variance, True, "train.max_zero_variance"),
        Limit("call_rate", train.min_call_rate, False, "train.min_call_rate"),
        Limit("clip_fraction", train.max_clip_fraction, True, "train.max_clip_fraction"),
    ]
    return (*limits, Limit("kl", train.max_kl, True, "train.max_kl")) if train.max_kl else tuple(limits)


@dataclass
class Alarms:
    """Counts, for each limit of a run, the steps in a row beyond it."""

    run: str
    limits: tuple[Limit, ...]
    counts: dict[str, int] = field(default_factory=dict)

    def remember(self, row: Mapping[str, float]) -> None:
        """Count a step that a run before this one has made."""
        for limit in self.limits:
            if limit.column in row:
                self.counts[limit.column] = self.counts.get(limit.column, 0) + 1 if limit.is_broken(row) else 0

    def check(self, step: int, row: Mapping[str, float], note: str = "") -> None:
        """Look at the numbers of a step, all or some of them. Raises RunStopped with the reason; ``note`` is added to it."""
        for name, value in row.items():
            if not math.isfinite(value):
                raise RunStopped(f"{self.run} stopped at step {step}: {name} is {value}, not a finite number.")
        self.remember(row)
        for limit in self.limits:
            count = self.counts.get(limit.column, 0)
            if limit.column in row and count >= limit.patience:
                times = f"for {count} steps in a row " if limit.patience > 1 else ""
                side = "above" if limit.upper else "below"
                raise RunStopped(
                    f"{self.run} stopped at step {step}: {limit.column} was {times}{side} {limit.parameter} = {limit.value:g}, "
                    f"last {row[limit.column]:.3g}{note}."
                )
