"""SLCA's routing without its normalisation: GRPO's scale (method section 4).

    A_s,i = lambda_s * (R_s,i - mean_s) / (std of R_tool + R_sum, + eps),  on the tokens of segment s

mean_s runs over the same members as in ``slca``, the deviation of the sum over all scorable ones as in ``grpo``. Departure: where
that deviation is no more than eps, A is 0. Two rewards that cancel would otherwise be divided by eps alone, a million
times too large, in a group from which GRPO learns nothing.
"""

import numpy as np

from slca.credit.group import Groups, within_groups
from slca.credit.guard import guarded
from slca.credit.rule import SegmentAdvantages, Settings, counted, on_segments


def routed_joint(groups: Groups, settings: Settings) -> SegmentAdvantages:
    groups = guarded(groups, settings.omission_guard)
    with_tool, with_summary = counted(groups, settings)
    tool, _ = within_groups(groups, groups.tool, with_tool)
    summary, _ = within_groups(groups, groups.summary, with_summary)
    _, deviation = within_groups(groups, groups.tool + groups.summary, groups.scorable)
    scale = np.where(deviation > settings.eps, 1.0 / (deviation + settings.eps), 0.0)
    return on_segments(groups, settings.lambda_tool * tool * scale, settings.lambda_sum * summary * scale)
