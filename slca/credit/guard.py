"""The omission guard: not calling, where a call is needed, is never worth more than calling badly (method section 2).

Without it a policy can drop the call and be paid for a fluent reply. The guard is part of the rewards, so every rule applies it
before anything else, and all methods learn from the same rewards.

* ``paper``: fires where a call is needed and none was opened (an omission), or where the total is negative. The tool score
  becomes 0 and the total replaces the summary score; the total of an omission is -0.5. A negative total depends
  on both rewards, so here each reward can reach the other segment: the lock of section 2 does not hold.
* ``tool_side`` (ours): fires on omissions alone. That a call was needed and that none was opened are facts of the
  rollout, not rewards, and what is written are two constants: tool 0, summary -0.5. So no summary reward can change a tool
  score or the reverse, and the lock holds to the last bit.
* ``off``: the rewards as they are.

Masked rollouts stay masked. Guarding twice is guarding once.
"""

from dataclasses import replace

import numpy as np

from slca.credit.group import Groups
from slca.credit.rule import OmissionGuard

OMISSION_TOTAL = -0.5


def guarded(groups: Groups, guard: OmissionGuard) -> Groups:
    """``groups`` with the rewards that the guard leaves."""
    if guard == "off":
        return groups
    omitted = groups.scorable & groups.needs_call & ~groups.opened_call
    total = np.where(omitted, OMISSION_TOTAL, groups.tool + groups.summary)
    fires = total < 0 if guard == "paper" else omitted  # an omission's total is negative; a masked total is NaN
    return replace(groups, tool=np.where(fires, 0.0, groups.tool), summary=np.where(fires, total, groups.summary))
