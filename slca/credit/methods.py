"""The credit rules by name: the four combinations of two independent choices (method section 4).

                                   one scale for both rewards   a scale for each reward
a token hears of both rewards      grpo                         gdpo
of its segment's reward alone      routed_joint                 slca
"""

from slca.credit.gdpo import gdpo
from slca.credit.grpo import grpo
from slca.credit.routed_joint import routed_joint
from slca.credit.rule import Rule
from slca.credit.slca import slca

METHODS: dict[str, Rule] = {"grpo": grpo, "slca": slca, "gdpo": gdpo, "routed_joint": routed_joint}
