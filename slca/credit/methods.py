"""The credit rules by name (method section 4). Four of them are the combinations of two independent choices:

                                   one scale for both rewards   a scale for each reward
a token hears of both rewards      grpo                         gdpo
of its segment's reward alone      routed_joint                 slca

``slca_call`` adds credit for single calls to ``slca``; ``toolpo`` and ``rltr`` are published rivals with rewards of their own.
"""

from slca.credit.gdpo import gdpo
from slca.credit.grpo import grpo
from slca.credit.rltr import rltr
from slca.credit.routed_joint import routed_joint
from slca.credit.rule import Rule
from slca.credit.slca import slca
from slca.credit.slca_call import slca_call
from slca.credit.toolpo import toolpo

METHODS: dict[str, Rule] = {
    "grpo": grpo,
    "slca": slca,
    "slca_call": slca_call,
    "gdpo": gdpo,
    "routed_joint": routed_joint,
    "toolpo": toolpo,
    "rltr": rltr,
}
