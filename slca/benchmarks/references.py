"""What a score is read against: answers of no model at all.

``gold`` replays the published answers, ``do_nothing`` never calls, ``random_call`` makes one well-formed call of a tool that
was offered. Gold says what the harness can measure, the other two what a score is worth; the warm start is the fourth reference
and is evaluated like any checkpoint.
"""

import random
from collections.abc import Sequence

from slca.files import derive_seed
from slca.records import Call, State
from slca.sgls.calling import draw_arguments
from slca.sgls.tool import Tool

NAMES = ("gold", "do_nothing", "random_call")


def random_call(tools: Sequence[Tool], item_id: str, seed: int, state: State | None = None) -> Call | None:
    """A call of one of ``tools``, drawn evenly, with arguments that validate; None where no tool has any that are found.

    Depends on (seed, item_id) alone. state: arguments that name records name these.
    """
    rng = random.Random(derive_seed("random call", seed, item_id))
    for tool in rng.sample(list(tools), len(tools)):
        arguments = draw_arguments(tool, state or {}, rng.getrandbits(31))
        if arguments is not None:
            return Call(tool.name, arguments)
    return None
