"""Two independent calls in one step, rarely three: the same tool with other values, or another tool."""

import random

from slca.records import Call, State
from slca.tasks.asking import Request, ask, report
from slca.tasks.gold import run_plan
from slca.tasks.world import Draft, World

THREE = 0.1
SAME_TOOL = 0.5
"""Shares of tasks with three calls, and of calls that repeat the first one's tool."""

MAX_WORDS = 28


def parallel(world: World, rng: random.Random) -> Draft | None:
    state: State = {}
    first = world.subject(rng)
    tools = [first]
    for _ in range(2 if rng.random() < THREE else 1):
        tools.append(first if rng.random() < SAME_TOOL else world.companion(rng))
    requests = [ask(world, tool, rng, state) for tool in tools]
    question = joined([request.question for request in requests], rng)
    calls = tuple(Call(request.tool.name, request.arguments) for request in requests)
    if len(question.split()) > MAX_WORDS or len({str(call) for call in calls}) < len(calls):
        return None
    told = _independent(world, requests, calls, state)
    if told is None:
        return None
    facts = tuple(dict.fromkeys(fact for _, stated in told for fact in stated))
    listed = world.tool_list(rng, tools, rng.randint(2, 4))
    return Draft(question, listed, (calls,), facts, " ".join(reply for reply, _ in told), state)


def joined(questions: list[str], rng: random.Random) -> str:
    """One request out of several: joined by "and" where the sentences allow, else by "Also,"."""
    text = questions[0]
    for question in questions[1:]:
        follow = question if question.startswith("I ") else question[0].lower() + question[1:]
        if text.endswith(".") and question.endswith(".") and rng.random() < 0.5:
            text = f"{text[:-1]} and {follow}"
        else:
            text = f"{text} Also, {follow}"
    return text


def _independent(
    world: World, requests: list[Request], calls: tuple[Call, ...], state: State
) -> list[tuple[str, tuple[str, ...]]] | None:
    """Replies and facts of all calls; None if one fails or their order matters (then they are no parallel calls)."""
    tools = list({request.tool.name: request.tool for request in requests}.values())
    (forward,), end = run_plan(tools, state, (calls,), world.simulator)
    (backward,), other_end = run_plan(tools, state, (calls[::-1],), world.simulator)
    if any(attempt.error for attempt in forward) or end != other_end or forward != backward[::-1]:
        return None
    told = [report(request.tool, request.reply, attempt.result) for request, attempt in zip(requests, forward, strict=True)]
    return None if None in told else [entry for entry in told if entry is not None]
