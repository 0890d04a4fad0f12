"""A required value is not given: ask for it, call nothing."""

import random

from slca.records import State
from slca.sgls.tool import Tool
from slca.tasks.asking import ask, askable_gaps, noun
from slca.tasks.world import Draft, World

REPLIES = ("Which {noun} should I use?", "Please tell me the {noun}.")


def missing(world: World, rng: random.Random) -> Draft | None:
    tool = world.subject(rng)
    gaps = askable_gaps(world, tool)
    if not gaps:
        return None
    gap = rng.choice(gaps)
    state: State = {}
    question = ask(world, tool, rng, state, without=gap).question

    def finds_it(other: Tool) -> bool:
        """A search of the same domain could find the value; then asking would not be the only right thing."""
        return other.domain == tool.domain and other.behaviour is not None and other.behaviour.kind == "search"

    tools = world.tool_list(rng, [tool], rng.randint(2, 3), refuse=finds_it)
    name = noun(world.book.domains.get(tool.domain), gap)
    return Draft(question, tools, (), (name,), rng.choice(REPLIES).format(noun=name), state)
