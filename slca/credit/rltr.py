"""RLTR (arXiv 2508.19598): only the planner learns, from how complete its calls are (method section 4).

    R_i = completeness_i - lambda * consecutive repeats_i - mu * erroneous calls_i;  R_i = -1 with a malformed call
    A_i = (R_i - mean) / (std + eps) on TOOL tokens, over the scorable members;  0 on SUMMARY tokens

lambda and mu are unpublished; .1 and .2 are what others use (``rltr_repeat``, ``rltr_error``). Published completeness is judged
by a model, several times; here it is counted against the gold plan, once. The published summaries come from a frozen
summariser; whoever evaluates this method decides who writes them and says so.
"""

import numpy as np

from slca.credit.group import Groups, within_groups
from slca.credit.rule import SegmentAdvantages, Settings, calls_of, on_segments


def rltr(groups: Groups, settings: Settings) -> SegmentAdvantages:
    calls = calls_of(groups, "rltr")
    planned = calls.completeness - settings.rltr_repeat * calls.repeats - settings.rltr_error * calls.errors
    rewards = np.where(calls.malformed > 0, -1.0, planned)
    distance, deviation = within_groups(groups, rewards, groups.scorable)
    return on_segments(groups, distance / (deviation + settings.eps), np.zeros(len(distance)))
