"""How much of a segment's credit comes from the other segment's reward (method section 4, last paragraph).

For segment s, over the scorable rollouts that have it:

    contamination = sum over groups of the variance of A_s that the other reward explains beyond the own reward
                    / sum over groups of the variance of A_s

The fit is by least squares inside each group, with that group's own intercept and slopes: advantages are relative to their group
in place and in scale, so one slope for all groups would blame the other reward for what is only a change of scale. Rules
that use the two rewards are linear in them inside a group, so the fit is exact: 0 for ``slca`` by construction, and for
``grpo`` with two uncorrelated rewards of equal variance 1/2. What both rewards explain alike is credited to the own reward. What
the other reward does to a group's scale is not seen, so ``routed_joint`` has 0 as well, though it has no lock. ``toolpo`` and
``rltr`` have rewards of their own: theirs is what the other segment's reward happens to explain of them. What
``slca_call`` adds on single calls is left out.

The rewards are those that the omission guard leaves: they are what a method learns from.
"""

import math

import numpy as np

from slca.credit.group import Floats, Groups, Rows, deviations
from slca.credit.guard import guarded
from slca.credit.methods import METHODS
from slca.credit.rule import Settings

NEGLIGIBLE = 1e-12
"""Rounding: advantages are of order 1, so neither a variance of theirs nor a share of it means anything below this."""


def contamination(group: Rows, advantages: Floats, own: Floats, other: Floats) -> float:
    """The share, 0 to 1, from four arrays (n,); rows with a NaN are left out; 0 where the advantages do not vary."""
    whole = ~np.isnan(advantages + own + other)
    total, explained = [], []
    for number in np.unique(group[whole]):
        rows = whole & (group == number)
        (credit, _), (mine, _), (theirs, _) = (deviations(values[rows]) for values in (advantages, own, other))
        rest = theirs - mine * _ratio(_dot(mine, theirs), _dot(mine, mine))  # of the other reward, beyond the own
        total.append(_dot(credit, credit))
        if _dot(rest, rest) > NEGLIGIBLE * _dot(theirs, theirs):
            explained.append(_dot(credit, rest) ** 2 / _dot(rest, rest))
    if math.fsum(total) <= NEGLIGIBLE:
        return 0.0
    share = math.fsum(explained) / math.fsum(total)
    return share if share > NEGLIGIBLE else 0.0


def contamination_of(method: str, groups: Groups, settings: Settings) -> dict[str, float]:
    """Contamination of both segments under ``method`` (a name in METHODS): ``{"tool": share, "summary": share}``."""
    advantages = METHODS[method](groups, settings)
    rewards = guarded(groups, settings.omission_guard)
    tool, summary = groups.scorable & groups.has_tool, groups.scorable & groups.has_summary
    return {
        "tool": contamination(groups.group[tool], advantages.tool[tool], rewards.tool[tool], rewards.summary[tool]),
        "summary": contamination(
            groups.group[summary], advantages.summary[summary], rewards.summary[summary], rewards.tool[summary]
        ),
    }


def _dot(left: Floats, right: Floats) -> float:
    return math.fsum(left * right)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
