"""Questions for tools that have no phrasing (imported lists, users' own tools), made from their schema alone.

'Use git_log with repo_path "blue-lamp/notes" and max_count 5.' The arguments are the required ones and, now and then, an
optional one; the reply states one or two scalars of the simulated result. A tool that keeps records is asked about records that
are there: the state holds some of each kind that the call touches. Schemas that values cannot be drawn for (objects, choices
in required places) are not used, nor are those that fill a small model's context.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence

from slca import params
from slca.files import canonical_json
from slca.records import Call, Json, State
from slca.sgls import shapes, validation
from slca.sgls.backends import words as drawn_words
from slca.sgls.backends.base import Request
from slca.sgls.backends.schema import SchemaBackend
from slca.sgls.calling import naming, naming_parents
from slca.sgls.inference import seed_state
from slca.sgls.tool import Tool
from slca.tasks.gold import run_plan
from slca.tasks.phrasing import words
from slca.tasks.values import Part, draw

MAX_SCHEMA_CHARS = 800
"""Tools with longer parameter schemas (as compact JSON) are skipped."""

MAX_FACT_CHARS = 40

RECORDS = 3
"""Records of each kind that a task's state holds."""

_ANNOTATIONS = {"title", "description", "default", "examples", "example", "readOnly", "writeOnly", "deprecated", "nullable"}
_BOUNDS = {"format", "pattern", "minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength"}
_ACCEPTED = {"type", "enum", "const", "items"} | _ANNOTATIONS | _BOUNDS
_SIMPLE = ("string", "integer", "number", "boolean")
_HINTS = {"path": "path", "file": "path", "zone": "zone", "date": "date", "time": "time", "city": "city", "name": "person"}
_ZONES = ("Europe/Berlin", "Europe/Paris", "Asia/Tokyo", "Asia/Seoul", "America/Lima", "America/Bogota", "Africa/Cairo")


class Undrawable(Exception):
    """No value can be drawn for a schema."""


def is_usable(tool: Tool, service: Sequence[Tool], simulator: params.Simulator) -> bool:
    """Whether questions can be made for ``tool``, one of the tools of ``service``: arguments can be drawn, its schema is not
    long, and a call has a result that something can be told of."""
    if len(canonical_json(tool.parameters)) > MAX_SCHEMA_CHARS:
        return False
    try:
        given, state = request(tool, service, random.Random(0), "train")
    except Undrawable:
        return False
    ((attempt,),), _ = run_plan([tool], state, ((Call(tool.name, given),),), simulator)
    return attempt.error is None and report(attempt.result) is not None


def request(tool: Tool, service: Sequence[Tool], rng: random.Random, part: Part) -> tuple[dict[str, Json], State]:
    """Arguments for one call and the records that it needs. Raises Undrawable."""
    behaviour = tool.behaviour
    if behaviour is None or behaviour.kind == "compute":
        given = arguments(tool, rng, part)
        state: State = {}
    else:
        entity = str(behaviour.entity)
        seeded = seed_state(service, RECORDS, rng.getrandbits(31))
        touched = {entity, *(copy.entity for copy in behaviour.copies), *(adjust.entity for adjust in behaviour.adjusts)}
        state = {name: records for name, records in seeded.items() if name in touched}
        given = arguments(tool, rng, part, _names(tool, state, rng))
    if not given:
        raise Undrawable(tool.name)
    return given, state


def arguments(tool: Tool, rng: random.Random, part: Part, known: Mapping[str, Json] | None = None) -> dict[str, Json]:
    """Values for the required arguments and at times for one optional one; ``known`` ones as they are. Raises Undrawable."""
    given = dict(known or {})
    names = [name for name in tool.properties if name in tool.required]
    optional = [name for name in tool.properties if name not in (*tool.required, *given) and _is_simple(_schema(tool, name))]
    if optional and rng.random() < 0.4:
        names.append(rng.choice(optional))
    wanted = {*names, *given}
    return {
        name: given[name] if name in given else _value(name, _schema(tool, name), rng, part)
        for name in tool.properties
        if name in wanted
    }


def question(tool: Tool, given: Mapping[str, Json]) -> str:
    """States the tool's name and every value as JSON."""
    stated = [f"{name} {json.dumps(value, ensure_ascii=False)}" for name, value in given.items()]
    if not stated:
        return f"Use {tool.name}."
    listed = stated[0] if len(stated) == 1 else f"{', '.join(stated[:-1])} and {stated[-1]}"
    return f"Use {tool.name} with {listed}."


def report(result: Json) -> tuple[str, tuple[str, ...]] | None:
    """A reply that states the first one or two telling scalars of ``result``, and these as facts; None if it has none."""
    told = list(dict.fromkeys(_leaves(result, "result")))[:2]
    if not told:
        return None
    stated = " and the ".join(f"{name} is {value}" for name, value in told)
    return f"The {stated}.", tuple(value for _, value in told)


def _names(tool: Tool, state: State, rng: random.Random) -> dict[str, Json]:
    """Arguments that name records of ``state``: the one that a call is about, what a new one is inside, what a search seeks."""
    behaviour = tool.behaviour
    assert behaviour is not None
    records = state.get(str(behaviour.entity), {})
    if behaviour.kind == "create" or not records:
        return naming_parents(tool, state, rng.randrange(RECORDS), rng.getrandbits(31))
    record_id = rng.choice(sorted(records))
    record = records[record_id]
    named = naming(tool, record_id, record)
    sought = [one for one in behaviour.where if one.op == "eq" and one.argument not in named and _is_plain(record.get(one.field))]
    if behaviour.kind == "search" and sought:
        condition = rng.choice(sought)
        named[condition.argument] = record[condition.field]
    return named


def _is_plain(value: Json) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _schema(tool: Tool, name: str) -> Json:
    """The schema of an argument, with references followed and annotations of other standards left out."""
    schema = tool.properties[name]
    if isinstance(schema, dict) and schema.keys() & {"$ref", "allOf"}:
        schema = shapes.flat(schema, tool.parameters)
    return {key: value for key, value in schema.items() if not key.startswith("x-")} if isinstance(schema, dict) else schema


def _leaves(value: Json, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _leaves(part, words(key) or name)
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(part, name)
    elif isinstance(value, str):
        if 2 <= len(value) <= MAX_FACT_CHARS and not set(value) & set('"\\{}<>\n'):
            yield name, value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, json.dumps(value)


def _is_simple(schema: Json) -> bool:
    return isinstance(schema, dict) and set(schema) <= _ACCEPTED and schema.get("type") in _SIMPLE


def _value(name: str, schema: Json, rng: random.Random, part: Part) -> Json:
    if not isinstance(schema, dict) or not set(schema) <= _ACCEPTED:
        raise Undrawable(name)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    match schema.get("type"):
        case "boolean":
            return rng.random() < 0.5
        case "integer" | "number":
            return _number(schema, rng, part)
        case "string":
            return _string(name, schema, rng, part)
        case "array":
            count = max(int(schema.get("minItems", 1)), min(rng.randint(1, 2), int(schema.get("maxItems", 2))))
            return [_value(name, schema.get("items", {"type": "string"}), rng, part) for _ in range(count)]
    raise Undrawable(name)


def _number(schema: dict[str, Json], rng: random.Random, part: Part) -> int:
    low = int(schema.get("minimum", 2))
    high = min(int(schema.get("maximum", low + 97)), low + 97)
    # A narrow range is a closed set: it cannot be shared out among the splits.
    return int(draw(f"int:{low}:{high}", rng, part)) if high - low >= 40 else rng.randint(low, max(low, high))


def _string(name: str, schema: dict[str, Json], rng: random.Random, part: Part) -> str:
    form = schema.get("format")
    if "pattern" in schema:
        return _matching(name, schema, rng)
    hint = next((kind for word, kind in _HINTS.items() if word in words(name).split()), "")
    if form == "date-time":
        text = f"{draw('date', rng, part)}T{draw('time', rng, part)}:00"
    elif form in ("date", "time"):
        text = str(draw(str(form), rng, part))
    elif form in drawn_words.FORMATS:
        text = drawn_words.FORMATS[form](rng)
    elif form is not None:
        raise Undrawable(name)
    elif hint == "path":
        text = f"{draw('item', rng, part)}/notes".replace(" ", "-")
    elif hint == "zone" or "timezone" in name.lower():
        text = rng.choice(_ZONES)
    else:
        text = str(draw(hint or "item", rng, part))
    if not int(schema.get("minLength", 0)) <= len(text) <= int(schema.get("maxLength", len(text))):
        raise Undrawable(name)
    return text


def _matching(name: str, schema: dict[str, Json], rng: random.Random) -> str:
    """A text that the schema's pattern takes."""
    wanted = {"type": "object", "properties": {name: schema}, "required": [name]}
    drawn = SchemaBackend().fill(Request(wanted, ["argument", name], {}, None, rng.getrandbits(31)))
    value = drawn.get(name) if isinstance(drawn, dict) else None
    if not isinstance(value, str) or validation.fault(validation.validator(schema), value, name) is not None:
        raise Undrawable(name)
    return value
