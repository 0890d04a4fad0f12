"""One request for one tool: its question, arguments, and how a reply reads once the result is known."""

import json
import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from slca.records import Json, State
from slca.sgls.tool import Tool
from slca.tasks import generic
from slca.tasks.phrasing import Domain, droppable, render, slots, words
from slca.tasks.scene import Scene
from slca.tasks.world import World


@dataclass(frozen=True)
class Request:
    """``reply`` is a template over the result's fields; empty for a tool without phrasings."""

    tool: Tool
    question: str
    arguments: dict[str, Json]
    reply: str


def ask(world: World, tool: Tool, rng: random.Random, state: State, without: str = "") -> Request:
    """A request for ``tool`` whose records are added to ``state``; its question leaves out the required argument ``without``."""
    phrases = world.phrases(tool)
    if phrases is None:
        given, records = generic.request(tool, world.services[tool.domain], rng, world.part)
        for entity, kept in records.items():
            state.setdefault(entity, {}).update(kept)
        return Request(tool, generic.question(tool, {k: v for k, v in given.items() if k != without}), given, "")
    template = rng.choice([t for t in phrases.questions(world.part) if not without or without in droppable(t)])
    scene = Scene(world.domain(tool), rng, world.part, state)
    given = scene.arguments(tool, _named(tool, template, rng))
    scene.crowd(tool, given)
    question = render(template, {name: value for name, value in given.items() if name != without})
    return Request(tool, question, given, rng.choice(phrases.replies))


def askable_gaps(world: World, tool: Tool) -> tuple[str, ...]:
    """Required arguments that some question of this split can leave out."""
    phrases = world.phrases(tool)
    if phrases is None:
        return tool.required
    templates = phrases.questions(world.part)
    return tuple(name for name in tool.required if any(name in droppable(template) for template in templates))


def report(tool: Tool, reply: str, result: Json) -> tuple[str, tuple[str, ...]] | None:
    """The reply that reports ``result`` and the facts it states; None where the result has nothing to tell."""
    if not reply:
        return generic.report(result)
    fields = only_record(tool, result)
    if fields is None:
        return None
    names = slots(reply)
    facts = tuple(dict.fromkeys(text(fields[name]) for name in names))
    return render(reply, {name: text(fields[name]) for name in names}), facts


def only_record(tool: Tool, result: Json) -> Mapping[str, Json] | None:
    """The fields that a result tells of: its own, or those of a search's only record; None if it found none or several."""
    behaviour = tool.behaviour
    if behaviour is None or behaviour.kind != "search":
        return dict(result)
    records = result[str(behaviour.result)]
    return dict(records[0]) if len(records) == 1 else None


def text(value: Json) -> str:
    """A scalar as it stands in a result's JSON, without quotes."""
    return value if isinstance(value, str) else json.dumps(value)


def noun(domain: Domain | None, argument: str) -> str:
    """What ``argument`` is called when it is asked for."""
    return domain.noun(argument) if domain is not None else words(argument)


def _named(tool: Tool, template: str, rng: random.Random) -> Collection[str]:
    """Arguments that a question states: all that the template names, each optional one in brackets with even chance."""
    optional = [name for name in droppable(template) if name not in tool.required]
    dropped = {name for name in optional if rng.random() < 0.5}
    return [name for name in slots(template) if name not in dropped]
