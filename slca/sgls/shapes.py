"""What a JSON Schema says of the shape of a value: its types, properties and items, with references followed and parts joined.

Only what is needed to lay a record into an answer; whether a value is right is left to ``slca.sgls.validation``. References are
JSON pointers into the same document; one that leads nowhere, or in a circle, says nothing.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any
from urllib.parse import unquote

from slca.records import Json

MOST_CHOICES = 16
"""Branches of anyOf and oneOf that are looked at."""
_DEEPEST = 16
_CHOICES = ("anyOf", "oneOf")
_PLAIN_PARTS = ("$ref", "allOf")
_DEFINITIONS = ("$schema", "$defs", "definitions")


def definitions(root: dict[str, Any]) -> dict[str, Any]:
    """The part of ``root`` that references in its inner schemas need."""
    return {key: root[key] for key in _DEFINITIONS if key in root}


def flat(schema: Json, root: dict[str, Any]) -> dict[str, Any]:
    """The first of ``choices``."""
    return next(choices(schema, root), {})


def choices(schema: Json, root: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What ``schema`` may stand for, one joined schema for each way through its anyOf and oneOf; null alone comes last."""
    found = list(islice(_choices(schema, root, 0), MOST_CHOICES))
    yield from sorted(found, key=lambda choice: types(choice) == {"null"})


def types(schema: dict[str, Any]) -> set[str]:
    """The types that a joined schema allows; guessed from its keywords where it names none, empty where they say nothing."""
    kinds = schema.get("type")
    if isinstance(kinds, str):
        return {kinds}
    if isinstance(kinds, list):
        return set(kinds)
    if "properties" in schema or "required" in schema:
        return {"object"}
    return {"array"} if "items" in schema else set()


def is_object(schema: dict[str, Any]) -> bool:
    return "object" in types(schema)


def is_scalar(schema: dict[str, Any]) -> bool:
    return bool(types(schema)) and not types(schema) & {"object", "array"}


def properties(schema: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = schema.get("properties", {})
    return found


def _choices(schema: Json, root: dict[str, Any], depth: int) -> Iterator[dict[str, Any]]:
    if not isinstance(schema, dict) or depth > _DEEPEST:
        yield {}
        return
    own = {key: value for key, value in schema.items() if key not in (*_PLAIN_PARTS, *_CHOICES)}
    parts: list[list[Json]] = [[part] for part in schema.get("allOf", ())]
    if isinstance(schema.get("$ref"), str):
        parts.append([_target(schema["$ref"], root)])
    parts += [list(schema[key]) for key in _CHOICES if schema.get(key)]
    yield from _combined(own, parts, root, depth)


def _combined(start: dict[str, Any], parts: list[list[Json]], root: dict[str, Any], depth: int) -> Iterator[dict[str, Any]]:
    if not parts:
        yield start
        return
    for branch in parts[0]:
        for choice in _choices(branch, root, depth + 1):
            yield from _combined(_joined(start, choice), parts[1:], root, depth)


def _joined(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    if not left or not right:
        return left or right
    joined = {**right, **left}
    if "properties" in left and "properties" in right:
        both = left["properties"].keys() & right["properties"].keys()
        narrowed = {name: {"allOf": [left["properties"][name], right["properties"][name]]} for name in both}
        joined["properties"] = {**right["properties"], **left["properties"], **narrowed}
    if "required" in left and "required" in right:
        joined["required"] = [*left["required"], *(name for name in right["required"] if name not in left["required"])]
    return joined


def _target(reference: str, root: dict[str, Any]) -> Json:
    if not reference.startswith("#"):
        return {}
    found: Json = root
    for part in unquote(reference[1:]).split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        found = found[int(name)] if isinstance(found, list) and name.isdecimal() and int(name) < len(found) else found
        found = found.get(name) if isinstance(found, dict) else found
    return found
