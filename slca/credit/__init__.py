"""Which token hears of which reward (method sections 1, 2 and 4).

    labels (slca.chat.segments) -> rewards in groups (group) -> guarded rewards (guard) -> a rule (METHODS) -> tokens (spread)

A rule is complete: it applies the omission guard itself. So credit for a batch is two lines:

    advantages = METHODS[name](groups_from_rewards(rewards, labels), Settings.from_params(params.train))
    per_token = spread(advantages, labels, rollout_ids)
"""

from slca.credit.contamination import contamination, contamination_of
from slca.credit.group import Calls, Groups, Member, MemberCalls, groups_from_rewards, groups_of, member_of
from slca.credit.guard import guarded
from slca.credit.methods import METHODS
from slca.credit.rule import Rule, SegmentAdvantages, Settings
from slca.credit.signal import signal
from slca.credit.spread import spread

__all__ = [
    "METHODS",
    "Calls",
    "Groups",
    "Member",
    "MemberCalls",
    "Rule",
    "SegmentAdvantages",
    "Settings",
    "contamination",
    "contamination_of",
    "groups_from_rewards",
    "groups_of",
    "guarded",
    "member_of",
    "signal",
    "spread",
]
