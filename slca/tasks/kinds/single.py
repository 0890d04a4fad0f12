"""One call, with two or three tools to choose from."""

import random
from collections.abc import Sequence

from slca.records import Call, State
from slca.sgls.tool import Tool
from slca.tasks.asking import Request, ask, report
from slca.tasks.gold import run_plan
from slca.tasks.world import Draft, World


def single(world: World, rng: random.Random) -> Draft | None:
    state: State = {}
    request = ask(world, world.subject(rng), rng, state)
    return one_call(world, request, state, world.tool_list(rng, [request.tool], rng.randint(2, 3)))


def one_call(world: World, request: Request, state: State, tools: Sequence[Tool]) -> Draft | None:
    """The task that asks for ``request`` alone."""
    plan = ((Call(request.tool.name, request.arguments),),)
    ((attempt,),), _ = run_plan([request.tool], state, plan, world.simulator)
    told = report(request.tool, request.reply, attempt.result) if attempt.error is None else None
    if told is None:
        return None
    return Draft(request.question, tuple(tools), plan, told[1], told[0], state)
