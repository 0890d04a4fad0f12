"""Validity, repairs, cache and seeds, over drawn calls of every tool.

Each tool is called a number of times with drawn arguments, all in one session. Then

* validity: answers that validate under the output schema, by ``jsonschema`` and not by the simulator's own validation;
  only ``pattern`` is read by ``slca.sgls.regexes``, since Python's ``re`` does not know the dialect of JSON Schema;
* repair rate: questions to the backend that followed a refused answer / all questions;
* failures: calls for which no valid answer was found (a rollout would be masked); refused: typed errors of the service;
* hit rate and replay: the same calls in another session that shares the cache, in the reverse order for tools that change
  nothing: the share of values that come from the cache, and of equal answers;
* seed agreement: the same calls under another seed. Values that repeat an argument under its name, and the records that the calls
  leave behind, do not depend on the seed; the share of those values that are equal, and whether the records are.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from time import perf_counter_ns
from typing import Any

import jsonschema

from slca.params import Simulator
from slca.records import Attempt, CallError, Json, State
from slca.sgls import regexes
from slca.sgls.cache import Cache
from slca.sgls.calling import draw_arguments
from slca.sgls.simulator import Session
from slca.sgls.tool import Tool

CHANGES = ("create", "update", "delete")

Advance = Callable[[int], object]
"""Is told how many calls more have been made."""


@dataclass(frozen=True)
class Made:
    """One call of the exercise and what came of it. nanoseconds: of the call, as a client in process sees it."""

    tool: Tool
    arguments: dict[str, Json]
    attempt: Attempt
    nanoseconds: int


@dataclass
class Exercise:
    """All calls in their order, and what was counted. undrawn: tools for which no valid arguments were found."""

    made: list[Made] = field(default_factory=list)
    undrawn: list[str] = field(default_factory=list)
    session: Session | None = None
    cache: Cache | None = None


def exercise(tools: Sequence[Tool], state: State, params: Simulator, calls: int, advance: Advance) -> Exercise:
    """``calls`` calls of each tool, tools in turn so that creations, reads and deletions mix."""
    cache = Cache.of(params)
    session = Session(tools, state, params, "fidelity", cache)
    done = Exercise(session=session, cache=cache)
    for index in range(calls):
        for tool in tools:
            arguments = draw_arguments(tool, session.state, params.seed, index)
            if arguments is None:
                if index == 0:
                    done.undrawn.append(tool.name)
            else:
                started = perf_counter_ns()
                attempt = session.call(tool.name, arguments)
                done.made.append(Made(tool, arguments, attempt, perf_counter_ns() - started))
            advance(1)
    return done


def again(
    tools: Sequence[Tool], state: State, params: Simulator, made: Sequence[Made], cache: Cache | None, advance: Advance
) -> list[Made]:
    """The calls ``made``, in another session, with the same state before each."""
    session = Session(tools, state, params, "fidelity", cache)
    repeated = []
    for call in made:
        started = perf_counter_ns()
        attempt = session.call(call.tool.name, call.arguments)
        repeated.append(Made(call.tool, call.arguments, attempt, perf_counter_ns() - started))
        advance(1)
    return repeated


def is_valid(call: Made) -> bool | None:
    """Whether an answer validates under its tool's output schema, by jsonschema; None for an error, without a schema, and where
    jsonschema cannot tell."""
    if call.attempt.error is not None or call.tool.output is None:
        return None
    kind = jsonschema.validators.validator_for(call.tool.output, default=jsonschema.Draft202012Validator)
    try:
        return bool(_with_patterns(kind)(call.tool.output).is_valid(call.attempt.result))
    except (re.error, regexes.TooCostly):  # names of properties are matched by Python's re
        return None


@lru_cache(maxsize=16)
def _with_patterns(kind: Any) -> Any:
    """A draft's validator class that reads ``pattern`` as JSON Schema means it."""

    def pattern(validator: Any, wanted: str, instance: Json, schema: Json) -> Iterator[jsonschema.ValidationError]:
        if isinstance(instance, str) and not regexes.finds(wanted, instance):
            yield jsonschema.ValidationError("does not match its pattern")

    extend: Any = jsonschema.validators.extend
    return extend(kind, {"pattern": pattern})


def echoes(arguments: Mapping[str, Json], result: Json) -> Iterator[tuple[tuple[Any, ...], Json]]:
    """Places in a result where a property with an argument's name holds that argument's value."""

    def walk(value: Json, place: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Json]]:
        if isinstance(value, dict):
            for key, part in value.items():
                if key in arguments and part == arguments[key]:
                    yield (*place, key), part
                else:
                    yield from walk(part, (*place, key))
        elif isinstance(value, list):
            for index, part in enumerate(value):
                yield from walk(part, (*place, index))

    yield from walk(result, ())


def seed_agreement(first: Sequence[Made], second: Sequence[Made]) -> tuple[int, int]:
    """Of the values in ``first`` that repeat an argument: how many ``second`` has too, and how many there are."""
    agreed = total = 0
    for one, other in zip(first, second, strict=True):
        if one.attempt.error is None:
            for place, value in echoes(one.arguments, one.attempt.result):
                total += 1
                agreed += other.attempt.error is None and _at(other.attempt.result, place) == value
    return agreed, total


def _at(value: Json, place: tuple[Any, ...]) -> Json:
    for part in place:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def is_refusal(call: Made) -> bool:
    """A typed error of the service itself, no failure of the simulator and no injected fault."""
    return call.attempt.error not in (None, CallError.SIMULATOR_FAILURE, CallError.FAULT)
