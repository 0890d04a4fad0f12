"""ToolPO (DeepAgent, arXiv 2510.21618, eq. 5-7): success for all tokens, correct calls for TOOL tokens, no deviations.

    A_i = (S_i - mean S) + (C_i - mean C) on TOOL tokens,  S_i - mean S on SUMMARY tokens

C: the number of gold calls met in full. S: with ``toolpo_success: rule`` whether the rollout succeeded (process score at the
threshold), 1 or 0; with ``judge`` the summary score. The published runs differ by tens of points between the two, so a result
names which it is. Means run over the scorable members. Departure: the summary score is the one that the omission guard
leaves, as for every rule; an omission has no success and no correct call anyway.
"""

import numpy as np

from slca.credit.group import Groups, within_groups
from slca.credit.guard import guarded
from slca.credit.rule import SegmentAdvantages, Settings, calls_of, on_segments


def toolpo(groups: Groups, settings: Settings) -> SegmentAdvantages:
    groups = guarded(groups, settings.omission_guard)
    calls = calls_of(groups, "toolpo")
    judged = settings.toolpo_success == "judge"
    success, _ = within_groups(groups, groups.summary if judged else calls.success, groups.scorable)
    action, _ = within_groups(groups, calls.correct, groups.scorable)
    return on_segments(groups, np.add(success, action), success)
