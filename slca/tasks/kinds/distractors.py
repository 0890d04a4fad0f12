"""One call, with five or six similar tools to choose from: those of its domain first."""

import random

from slca.records import State
from slca.tasks.asking import ask
from slca.tasks.kinds.single import one_call
from slca.tasks.world import Draft, World


def distractors(world: World, rng: random.Random) -> Draft | None:
    state: State = {}
    tool = world.subject(rng)
    request = ask(world, tool, rng, state)
    return one_call(world, request, state, world.tool_list(rng, [tool], rng.randint(5, 6), near=tool.domain))
