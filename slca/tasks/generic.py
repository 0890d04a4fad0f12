"""Questions for tools that have no phrasing (imported lists, users' own tools), made from their schema alone.

'Use git_log with repo_path "blue-lamp/notes" and max_count 5.' The arguments are the required ones and, now and then, an
optional one; the reply states one or two scalars of the simulated result. Schemas that values cannot be drawn for (patterns,
choices, nested objects in required places) are not used, nor are those that fill a small model's context.
"""

import json
import random
from collections.abc import Iterator, Mapping

from slca.files import canonical_json
from slca.records import Json
from slca.sgls.tool import Tool
from slca.tasks.phrasing import words
from slca.tasks.values import Part, draw

MAX_SCHEMA_CHARS = 800
"""Tools with longer parameter schemas (as compact JSON) are skipped."""

MAX_FACT_CHARS = 40

_BOUNDS = {"format", "minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength"}
_ACCEPTED = {"type", "enum", "const", "items", "title", "description", "default", "examples"} | _BOUNDS
_SIMPLE = ("string", "integer", "number", "boolean")
_HINTS = {"path": "path", "file": "path", "zone": "zone", "date": "date", "time": "time", "city": "city", "name": "person"}
_ZONES = ("Europe/Berlin", "Europe/Paris", "Asia/Tokyo", "Asia/Seoul", "America/Lima", "America/Bogota", "Africa/Cairo")


class Undrawable(Exception):
    """No value can be drawn for a schema."""


def is_usable(tool: Tool) -> bool:
    """Whether questions can be made for ``tool``: it has required arguments that can all be drawn, needs no record in the state,
    and its schema is not long."""
    if len(canonical_json(tool.parameters)) > MAX_SCHEMA_CHARS or not tool.required or _needs_records(tool):
        return False
    try:
        arguments(tool, random.Random(0), "train")
    except Undrawable:
        return False
    return True


def arguments(tool: Tool, rng: random.Random, part: Part) -> dict[str, Json]:
    """Values for the required arguments and at times for one optional one. Raises Undrawable."""
    names = [name for name in tool.properties if name in tool.required]
    optional = [name for name, schema in tool.properties.items() if name not in tool.required and _is_simple(schema)]
    if optional and rng.random() < 0.4:
        names.append(rng.choice(optional))
    return {name: _value(name, tool.properties[name], rng, part) for name in tool.properties if name in names}


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


def _needs_records(tool: Tool) -> bool:
    behaviour = tool.behaviour
    return behaviour is not None and (behaviour.kind not in ("create", "compute") or bool(behaviour.copies or behaviour.adjusts))


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
    hint = next((kind for word, kind in _HINTS.items() if word in words(name).split()), "")
    if form == "date-time":
        text = f"{draw('date', rng, part)}T{draw('time', rng, part)}:00"
    elif form in ("date", "time"):
        text = str(draw(str(form), rng, part))
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
