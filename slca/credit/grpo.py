"""GRPO on the sum of both rewards: one advantage for every learnable token of a rollout (method section 4, "w/o SLCA").

    A_i = (R_i - mean) / (std + eps),  R_i = R_tool,i + R_sum,i,  over the scorable members of the group

The rewards are those that the omission guard leaves, as for every other rule; the lambdas and presence settings play no part.
"""

from slca.credit.group import Groups, within_groups
from slca.credit.guard import guarded
from slca.credit.rule import SegmentAdvantages, Settings, on_segments


def grpo(groups: Groups, settings: Settings) -> SegmentAdvantages:
    groups = guarded(groups, settings.omission_guard)
    distance, deviation = within_groups(groups, groups.tool + groups.summary, groups.scorable)
    advantage = distance / (deviation + settings.eps)
    return on_segments(groups, advantage, advantage)
