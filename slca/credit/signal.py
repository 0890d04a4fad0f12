"""Whether there is anything to learn from: groups without variance, and how often each segment is present.

A group whose rewards are all equal gives advantages of 0 and teaches nothing. The filter of ``presence: members`` conditions
on the action taken, which is why the presence rates belong next to every result.
"""

import numpy as np

from slca.credit.group import Bools, Floats, Groups, within_groups
from slca.credit.guard import guarded
from slca.credit.rule import Settings, counted


def signal(groups: Groups, settings: Settings) -> dict[str, float]:
    """Shares, 0 to 1, from the rewards that the omission guard leaves.

    zero_variance_tool, zero_variance_summary, zero_variance_sum: groups whose deviation of that reward, over the members that
    make up its mean, is no more than eps (fewer than two members included). zero_variance_both: groups for which this
    holds of the tool and of the summary reward, which teach ``slca`` nothing. presence_tool, presence_summary: rollouts with
    tokens of the segment. masked: rollouts that are not scorable.
    """
    groups = guarded(groups, settings.omission_guard)
    with_tool, with_summary = counted(groups, settings)
    flat_tool = _flat(groups, groups.tool, with_tool, settings.eps)
    flat_summary = _flat(groups, groups.summary, with_summary, settings.eps)
    flat_sum = _flat(groups, groups.tool + groups.summary, groups.scorable, settings.eps)
    shares = {
        "zero_variance_tool": flat_tool,
        "zero_variance_summary": flat_summary,
        "zero_variance_sum": flat_sum,
        "zero_variance_both": flat_tool & flat_summary,
        "presence_tool": groups.has_tool,
        "presence_summary": groups.has_summary,
        "masked": ~groups.scorable,
    }
    return {name: float(np.mean(values)) for name, values in shares.items()}


def _flat(groups: Groups, rewards: Floats, members: Bools, eps: float) -> Bools:
    _, deviation = within_groups(groups, rewards, members)
    return np.array([deviation[rows].max() <= eps for rows in groups.rows()])
