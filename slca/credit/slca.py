"""SLCA: each segment hears of its own reward, on that reward's own scale (method section 2).

    A_s,i = lambda_s * (R_s,i - mean_s) / (std_s + eps),  s in {tool, sum}

mean_s and the unbiased std_s run over the group's members that have segment s (``presence: members``, the paper) or over all
scorable ones (``all``); with fewer than two of these A_s is 0 for the group. Ours: tool ``all``, since the tool reward
is defined without a call too, and among those who called needlessly alone there is nothing to compare with.

Invariant (the lock): A_tool depends on no summary reward and A_sum on no tool reward, to the last bit. Which rollouts are
scorable, have a segment or opened a call are facts that both may depend on.
"""

from slca.credit.group import Groups, within_groups
from slca.credit.guard import guarded
from slca.credit.rule import SegmentAdvantages, Settings, counted, on_segments


def slca(groups: Groups, settings: Settings) -> SegmentAdvantages:
    groups = guarded(groups, settings.omission_guard)
    with_tool, with_summary = counted(groups, settings)
    tool, tool_deviation = within_groups(groups, groups.tool, with_tool)
    summary, summary_deviation = within_groups(groups, groups.summary, with_summary)
    return on_segments(
        groups,
        tool=settings.lambda_tool * tool / (tool_deviation + settings.eps),
        summary=settings.lambda_sum * summary / (summary_deviation + settings.eps),
    )
