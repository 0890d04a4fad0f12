"""Two steps: an output of the first call (an id that was searched or created) feeds the second one."""

import random

from slca.records import Call, State
from slca.tasks.asking import only_record, report
from slca.tasks.gold import run_plan
from slca.tasks.phrasing import droppable, render, slots
from slca.tasks.scene import Scene
from slca.tasks.world import Draft, World


def chain(world: World, rng: random.Random) -> Draft | None:
    chains = world.chains
    if not chains:
        return None
    phrases, first, second = rng.choice(chains)
    template = rng.choice(phrases.questions(world.part))
    dropped = {slot for slot in droppable(template) if rng.random() < 0.5}
    named = [slot for slot in slots(template) if slot not in dropped]
    state: State = {}
    scene = Scene(world.domain(first), rng, world.part, state, phrases.fixed)
    found_by = scene.arguments(first, named)
    scene.crowd(first, found_by)
    opening = Call(first.name, found_by)
    ((attempt,),), _ = run_plan([first], state, ((opening,),), world.simulator)
    fields = only_record(first, attempt.result) if attempt.error is None else None
    if fields is None:
        return None
    linked = {argument: fields[field] for argument, field in phrases.link.items()}
    arguments = scene.arguments(second, [*named, *linked], linked)
    plan = ((opening,), (Call(second.name, arguments),))
    attempts, _ = run_plan([first, second], state, plan, world.simulator)
    last = attempts[1][0]
    domain = world.domain(second)
    told = report(second, rng.choice(domain.tools[second.name].replies), last.result) if last.error is None else None
    if told is None or attempts[0][0] != attempt:
        return None
    question = render(template, {name: value for name, value in {**found_by, **arguments}.items() if name in named})
    tools = world.tool_list(rng, [first, second], rng.randint(2, 4))
    return Draft(question, tools, plan, told[1], told[0], state)
