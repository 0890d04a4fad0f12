"""A JSON Schema in the words that the grammar engine understands, so that less of it is lost on the way to a grammar.

* ``allOf`` (to the engine: anything), keywords beside ``$ref`` and keywords beside ``anyOf`` or ``oneOf`` (both ignored) become
  schemas that join the parts. Each is a definition of its own, so that recursion through them stays recursion.
* A list of items, draft-07's spelling, becomes ``prefixItems``.
* An integer's bounds become whole numbers; those beyond 64 bits are left out.
* A required property that is not declared is declared, and values of ``enum`` whose type is not allowed go.

The outcome steers a model and judges nothing: where parts contradict each other or use words that cannot be joined, the first
one is kept, and the simulator's validation has the last word.
"""

from math import ceil, floor
from typing import Any

import referencing.exceptions
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from slca.files import canonical_json
from slca.records import Json
from slca.sgls.validation import type_name

MOST_JOINED = 200
"""Joined schemas in one document; parts beyond that are left out."""

_LARGEST = 2**63 - 1
_NAME = "slca-joined-{}"
_DEFINITIONS = ("$defs", "definitions")
_MAPS = ("properties", "patternProperties", *_DEFINITIONS)
_LISTS = ("anyOf", "oneOf", "prefixItems")
_SINGLE = ("items", "additionalProperties")
_HIGHER_IS_STRICTER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_LOWER_IS_STRICTER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_NOTES = {"title", "description", "default", "example", "examples", "deprecated", "readOnly", "writeOnly", "nullable"}
_NOTES |= {"$comment", "$schema", "$id", "$anchor", *_DEFINITIONS}


def for_grammar(schema: Json) -> Json:
    """``schema``, rewritten; equal to it where there is nothing to rewrite."""
    if not isinstance(schema, dict):
        return schema
    rewriting = _Rewriting(schema)
    new = rewriting.of({key: value for key, value in schema.items() if key not in _DEFINITIONS})
    for word in _DEFINITIONS:
        if word in schema:
            new |= rewriting.of({word: schema[word]})
    if rewriting.joined:
        new["$defs"] = {**new.get("$defs", {}), **rewriting.joined}
    return new


class _Rewriting:
    """``joined``: the joined schemas so far, by name."""

    def __init__(self, root: dict[str, Any]) -> None:
        registry: Registry[Any] = Registry()
        resource: Resource[Any] = DRAFT202012.create_resource(root)
        self._resolver = registry.with_resource("", resource).resolver()
        self._names: dict[str, str] = {}
        self.joined: dict[str, Json] = {}

    def of(self, schema: Json) -> Any:
        if not isinstance(schema, dict):
            return schema
        words = schema.keys() - _NOTES
        if "allOf" in words or ("$ref" in words and len(words) > 1):
            return self._reference(schema)
        for choice in ("anyOf", "oneOf"):
            if choice in words and len(words) > 1:
                rest = {key: value for key, value in schema.items() if key != choice and key not in _NOTES}
                return {"anyOf": [self.of({"allOf": [rest, branch]}) for branch in schema[choice]]}
        new: dict[str, Json] = {}
        for key, value in schema.items():
            if key in _MAPS and isinstance(value, dict):
                new[key] = {name: self.of(inner) for name, inner in value.items()}
            elif key in _LISTS and isinstance(value, list):
                new[key] = [self.of(inner) for inner in value]
            else:
                new[key] = self.of(value) if key in _SINGLE else value
        return _declared(_typed(_whole_bounds(_positional(new))))

    def _reference(self, schema: dict[str, Any]) -> dict[str, Json]:
        key = canonical_json({word: value for word, value in schema.items() if word not in _NOTES})
        if key not in self._names:
            if len(self._names) == MOST_JOINED:
                return {}
            name = self._names[key] = _NAME.format(len(self._names))
            self.joined[name] = self.of(self._opened(schema, ()))
        return {"$ref": f"#/$defs/{self._names[key]}"}

    def _opened(self, schema: Json, above: tuple[str, ...]) -> dict[str, Any]:
        """``schema`` joined with its parts, and they with theirs. ``above``: references followed on the way here."""
        if not isinstance(schema, dict):
            return {}
        new = {key: value for key, value in schema.items() if key not in ("allOf", "$ref", *_NOTES)}
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference not in above:
            try:
                target = self._resolver.lookup(reference).contents
            except referencing.exceptions.Unresolvable:
                target = {}
            new = _both(new, self._opened(target, (*above, reference)))
        for part in schema.get("allOf", ()):
            new = _both(new, self._opened(part, above))
        return new


def _both(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    """One schema for what meets ``left`` and ``right``."""
    new = {**right, **left}
    for key in left.keys() & right.keys():
        one, other = left[key], right[key]
        if key == "properties":
            shared = {name: {"allOf": [one[name], other[name]]} for name in one if name in other and one[name] != other[name]}
            new[key] = {**one, **other, **shared}
        elif key == "required":
            new[key] = [*one, *(name for name in other if name not in one)]
        elif key in _HIGHER_IS_STRICTER:
            new[key] = max(one, other)
        elif key in _LOWER_IS_STRICTER:
            new[key] = min(one, other)
        elif key == "type":
            new[key] = _common_types(one, other) or one
        elif key == "enum":
            new[key] = [value for value in one if value in other] or one
        elif key in _SINGLE and one != other and isinstance(one, dict) and isinstance(other, dict):
            new[key] = {"allOf": [one, other]}
    return new


def _common_types(one: str | list[str], other: str | list[str]) -> list[str]:
    wide = [other] if isinstance(other, str) else other
    kinds = [one] if isinstance(one, str) else one
    common = [kind for kind in kinds if kind in wide or (kind == "integer" and "number" in wide)]
    return common + [kind for kind in wide if kind == "integer" and "number" in kinds and kind not in common]


def _declared(schema: dict[str, Any]) -> dict[str, Any]:
    missing = {name: True for name in schema.get("required", ()) if name not in schema.get("properties", {})}
    return {**schema, "properties": {**schema.get("properties", {}), **missing}} if missing else schema


def _typed(schema: dict[str, Any]) -> dict[str, Any]:
    if "enum" not in schema or "type" not in schema:
        return schema
    kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    known = {*kinds, "integer"} if "number" in kinds else {*kinds}
    return {**schema, "enum": [value for value in schema["enum"] if type_name(value) in known] or schema["enum"]}


def _positional(schema: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(schema.get("items"), list):
        return schema
    new = {key: value for key, value in schema.items() if key not in ("items", "additionalItems")}
    return {**new, "prefixItems": schema["items"], "items": schema.get("additionalItems", True)}


def _whole_bounds(schema: dict[str, Any]) -> dict[str, Any]:
    if schema.get("type") not in ("integer", ["integer"]):
        return schema
    new = dict(schema)
    for key, rounded in {"minimum": ceil, "exclusiveMinimum": floor, "maximum": floor, "exclusiveMaximum": ceil}.items():
        if isinstance(new.get(key), int | float):
            new[key] = rounded(new[key])
            if abs(new[key]) > _LARGEST:
                del new[key]
    return new
