"""No tool in the list fits: the right thing is to say so. The request is for another tool, or for what no tool does."""

import random

from slca.records import State
from slca.tasks.asking import ask
from slca.tasks.phrasing import render, slots
from slca.tasks.values import draw
from slca.tasks.world import Draft, World

REPLY = "Sorry, I cannot do that with my tools."
FACT = "cannot"

OUT_OF_SCOPE = 0.25
SAME_DOMAIN = 0.3
"""Shares of requests that no tool serves, and of lists that hold other tools of the request's domain."""


def abstain(world: World, rng: random.Random) -> Draft | None:
    templates = world.book.out_of_scope.questions(world.part)
    size = rng.randint(2, 4)
    # In unseen_tools the list holds an unseen tool.
    must = [world.subject(rng)] if world.split == "unseen_tools" else []
    if templates and rng.random() < OUT_OF_SCOPE:
        template = rng.choice(templates)
        question = render(template, {slot: draw(slot, rng, world.part) for slot in slots(template)})
        tools = world.tool_list(rng, must, size)
        return Draft(question, tools, (), (FACT,), REPLY)
    tool = world.companion(rng)
    if world.phrases(tool) is None or tool in must:  # a schema-made question names its tool: declining it is no skill
        return None
    state: State = {}
    question = ask(world, tool, rng, state).question
    near = tool.domain if rng.random() < SAME_DOMAIN else ""
    if near:
        tools = world.tool_list(rng, must, size, near=near, refuse=lambda other: other == tool)
    else:
        tools = world.tool_list(rng, must, size, refuse=lambda other: other.domain == tool.domain)
    if not tools:
        return None
    return Draft(question, tools, (), (FACT,), REPLY, state)
