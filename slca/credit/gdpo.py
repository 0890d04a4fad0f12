"""GDPO (arXiv 2601.05242): SLCA's normalisation without its routing (method section 4).

    Z_i = sum over s of lambda_s * (R_s,i - mean_s) / (std_s + eps),  in the group
    A_i = (Z_i - mean) / (std + eps),                                over the batch, on every learnable token

Every mean and deviation runs over the scorable members: a reward that is broadcast has no segment to be present in.
"""

import numpy as np

from slca.credit.group import Groups, deviations, within_groups
from slca.credit.guard import guarded
from slca.credit.rule import SegmentAdvantages, Settings, on_segments


def gdpo(groups: Groups, settings: Settings) -> SegmentAdvantages:
    groups = guarded(groups, settings.omission_guard)
    scores = np.zeros(len(groups.group))
    for weight, rewards in ((settings.lambda_tool, groups.tool), (settings.lambda_sum, groups.summary)):
        distance, deviation = within_groups(groups, rewards, groups.scorable)
        scores += weight * distance / (deviation + settings.eps)
    advantage = np.zeros(len(groups.group))
    distance, batch_deviation = deviations(scores[groups.scorable])
    advantage[groups.scorable] = distance / (batch_deviation + settings.eps)
    return on_segments(groups, advantage, advantage)
