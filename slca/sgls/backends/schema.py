"""The embedded backend: values from the output schema and a seed alone (method section 5, backend ``schema``).

Deterministic: every node of the value is drawn from (seed, subject, repair, path to the node), so neither the order of a
schema's keys nor a neighbouring property changes it, in any process. A property with an argument's name takes the argument's
value where that validates. Keywords that cannot be built towards (oneOf, not, pattern, uniqueItems, ...) are met by drawing a
node again until it validates, at most ``TRIES`` times; a schema that nothing satisfies gives a value that the simulator then
refuses. Recursion ends: below ``SHALLOW`` levels optional properties and items are left out, below ``DEEPEST`` nothing is drawn,
and after ``MOST_NODES`` drawn nodes the whole value is given up.
"""

import random
from fractions import Fraction
from math import ceil, floor
from typing import Any

import referencing.exceptions
from jsonschema.protocols import Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from slca.files import canonical_json, derive_seed
from slca.records import Json
from slca.sgls import validation
from slca.sgls.backends import patterns, words
from slca.sgls.backends.base import Request

TRIES = 24
SHALLOW = 3
DEEPEST = 12
MOST_NODES = 3000

_COMBINED = ("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if")
_REDRAWN = {
    *(
        *_COMBINED,
        "not",
        "enum",
        "const",
        "pattern",
        "multipleOf",
        "uniqueItems",
        "contains",
        "propertyNames",
        "patternProperties",
    ),
    *("minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "dependencies"),
    *("unevaluatedProperties", "unevaluatedItems"),
}
_KINDS = {
    "object": {"properties", "required", "additionalProperties", "patternProperties", "minProperties", "propertyNames"},
    "array": {"items", "prefixItems", "minItems", "contains", "uniqueItems"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
}
"""Keywords that tell the kind of a value where the schema names no type."""


class SchemaBackend:
    name = "schema"
    model = ""
    prompt_version = "1"
    remembers = False

    def fill(self, request: Request) -> Json:
        seed = derive_seed("schema backend", request.seed, request.subject, request.repair)
        try:
            return _Draw(request.schema, request.arguments, seed).value(request.schema, (), 0)
        except (_Nothing, _Endless, RecursionError):
            return None


class _Nothing(Exception):
    """No value can be drawn here."""


class _Endless(Exception):
    """Too many nodes were drawn."""


class _Draw:
    def __init__(self, root: dict[str, Any], arguments: dict[str, Json], seed: int) -> None:
        self._compiled = validation.validator(root)
        resource: Resource[Any] = DRAFT202012.create_resource(root)
        registry: Registry[Any] = Registry()
        self._resolver = registry.with_resource("", resource).resolver()
        self._arguments = arguments
        self._seed = seed
        self._nodes = 0

    def value(self, schema: Json, path: tuple[str | int, ...], depth: int) -> Json:
        """A value for the node at ``path``; the last one tried where none validates."""
        if schema is False or depth > DEEPEST:
            raise _Nothing
        if not isinstance(schema, dict):
            schema = {}
        tries = TRIES if _REDRAWN & schema.keys() else 1
        value: Json = None
        for attempt in range(tries):
            self._nodes += 1
            if self._nodes > MOST_NODES:
                raise _Endless
            rng = random.Random(derive_seed(self._seed, list(path), attempt))
            try:
                value = self._once(self._merged(schema, rng, depth), path, depth, rng, attempt)
            except _Nothing:
                if attempt == tries - 1:
                    raise
                continue
            if tries > 1 and self._is_valid(schema, value):
                break
        return value

    def _is_valid(self, schema: Json, value: Json) -> bool:
        compiled: Validator = self._compiled.evolve(schema=schema)
        try:
            return validation.fault(compiled, value, "value") is None
        except validation.Unusable:
            return False

    def _merged(self, schema: dict[str, Any], rng: random.Random, depth: int) -> dict[str, Any]:
        """``schema`` with its references followed, its parts joined and one branch of each choice taken."""
        if depth > DEEPEST:
            raise _Nothing
        merged: Json = {key: value for key, value in schema.items() if key not in _COMBINED}
        parts: list[Json] = list(schema.get("allOf", ()))
        for key in ("$ref", "$dynamicRef"):
            if key in schema:
                try:
                    parts.append(self._resolver.lookup(schema[key]).contents)
                except referencing.exceptions.Unresolvable:
                    raise _Nothing from None
        parts += [_branch(schema[key], rng, depth) for key in ("anyOf", "oneOf") if key in schema]
        if "if" in schema:
            parts += [schema["if"], schema.get("then", True)] if rng.random() < 0.5 else [schema.get("else", True)]
        for part in parts:
            if part is False:
                raise _Nothing
            if isinstance(part, dict):
                merged = _joined(merged, self._merged(part, rng, depth + 1))
        if not isinstance(merged, dict):
            raise _Nothing
        return merged

    def _once(self, schema: dict[str, Any], path: tuple[str | int, ...], depth: int, rng: random.Random, attempt: int) -> Json:
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            if not schema["enum"]:
                raise _Nothing
            return rng.choice(schema["enum"])
        name = next((part for part in reversed(path) if isinstance(part, str)), "")
        match _kind(schema, rng):
            case "object":
                return self._object(schema, path, depth, rng, attempt)
            case "array":
                return self._array(schema, path, depth, rng)
            case "integer":
                return _number(schema, name, rng, whole=True)
            case "number":
                return _number(schema, name, rng, whole=False)
            case "boolean":
                return rng.random() < 0.5
            case "null":
                return None
            case _:
                return _string(schema, name, rng)

    def _object(self, schema: dict[str, Any], path: tuple[str | int, ...], depth: int, rng: random.Random, attempt: int) -> Json:
        properties: dict[str, Json] = schema.get("properties", {})
        required: list[str] = list(schema.get("required", ()))
        most = schema.get("maxProperties", len(properties) + len(required) + schema.get("minProperties", 0))
        # Every optional property where that is allowed; on every other try a part of them, in case they exclude each other.
        optional = sorted(properties.keys() - set(required)) if depth < SHALLOW else []
        optional = [key for key in optional if attempt % 2 == 0 or rng.random() < 0.5]
        names = required + optional[: max(0, int(most) - len(required))]
        for needed in schema.get("dependentRequired", {}).items():
            names += [key for key in needed[1] if needed[0] in names and key not in names]
        for number in range(TRIES):
            if len(names) >= schema.get("minProperties", 0):
                break
            names.append(f"{words.word_number(rng)}{number or ''}")
        value = {}
        for key in dict.fromkeys((*(key for key in properties if key in names), *names)):  # in the schema's order
            try:
                value[key] = self._property(schema, key, (*path, key), depth)
            except _Nothing:
                if key in required:
                    raise
        return value

    def _property(self, schema: dict[str, Any], key: str, path: tuple[str | int, ...], depth: int) -> Json:
        patterned = [part for pattern, part in schema.get("patternProperties", {}).items() if validation.finds(pattern, key)]
        declared = schema.get("properties", {})
        parts = ([declared[key]] if key in declared else []) + patterned or [schema.get("additionalProperties", True)]
        wanted: Json = parts[0]
        for part in parts[1:]:
            wanted = _joined(wanted, part)
        if depth == 0 and key in self._arguments and self._is_valid(wanted, self._arguments[key]):
            return self._arguments[key]
        return self.value(wanted, path, depth + 1)

    def _array(self, schema: dict[str, Any], path: tuple[str | int, ...], depth: int, rng: random.Random) -> Json:
        items = schema.get("items", True)
        # A list of items is draft-07's spelling of prefixItems.
        fixed = list(items if isinstance(items, list) else schema.get("prefixItems", ()))
        rest = schema.get("additionalItems", True) if isinstance(items, list) else items
        least = max(schema.get("minItems", 0), schema.get("minContains", 1) if "contains" in schema else 0)
        usual = (max(1, len(fixed)), max(2, len(fixed))) if depth < SHALLOW else (0, 0)
        most = schema.get("maxItems", max(least, usual[1]))
        if rest is False:
            most = min(most, len(fixed))
        low = max(least, min(usual[0], most))
        length = low + rng.randrange(max(0, min(max(usual[1], low), most) - low) + 1)
        value: list[Json] = []
        for index in range(length):
            wanted = fixed[index] if index < len(fixed) else rest
            if "contains" in schema and index >= length - least:
                wanted = _joined(wanted, schema["contains"])
            for attempt in range(TRIES if schema.get("uniqueItems") else 1):
                item = self.value(wanted, (*path, rng.getrandbits(32), attempt), depth + 1)
                if canonical_json(item) not in map(canonical_json, value):
                    break
            value.append(item)
        return value


def _branch(branches: list[Json], rng: random.Random, depth: int) -> Json:
    if depth >= SHALLOW:  # deep down, a branch that does not lead further
        branches = [branch for branch in branches if "$ref" not in canonical_json(branch)] or branches
    return rng.choice(branches)


_LARGER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_SMALLER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")


def _joined(left: Json, right: Json) -> Json:
    """One schema that asks for what both ask for, as far as it can be written down; the rest is left to validation."""
    if not isinstance(left, dict) or not isinstance(right, dict):
        return False if left is False or right is False else left if isinstance(left, dict) else right
    joined = {**left, **right}
    for key in left.keys() & right.keys():
        ours, theirs = left[key], right[key]
        if key in ("properties", "patternProperties"):
            joined[key] = {**ours, **theirs, **{name: _joined(ours[name], theirs[name]) for name in ours if name in theirs}}
        elif key in ("items", "additionalProperties") and not isinstance(ours, list) and not isinstance(theirs, list):
            joined[key] = _joined(ours, theirs)
        elif key == "required":
            joined[key] = [*ours, *(name for name in theirs if name not in ours)]
        elif key == "enum":
            joined[key] = [value for value in ours if value in theirs]
        elif key == "type":
            joined[key] = _common_types(ours, theirs)
        elif key in _LARGER:
            joined[key] = max(ours, theirs)
        elif key in _SMALLER:
            joined[key] = min(ours, theirs)
    return joined


def _types(kinds: Json) -> list[str]:
    return [kinds] if isinstance(kinds, str) else list(kinds)


def _common_types(left: Json, right: Json) -> list[str]:
    ours, theirs = _types(left), _types(right)
    # Integers are numbers: integer and number have integer in common.
    narrower = ["integer"] if {"integer", "number"} <= {*ours, *theirs} else []
    return [kind for kind in ours if kind in theirs] or narrower


def _kind(schema: dict[str, Any], rng: random.Random) -> str:
    if "type" in schema:
        kinds = _types(schema["type"])
        if not kinds:
            raise _Nothing
        return rng.choice([kind for kind in kinds if kind != "null"] or kinds)
    return next((kind for kind, keywords in _KINDS.items() if keywords & schema.keys()), "string")


def _string(schema: dict[str, Any], name: str, rng: random.Random) -> str:
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    if schema.get("format") in words.FORMATS:
        return words.FORMATS[schema["format"]](rng)
    text = None
    if "pattern" in schema:
        text = patterns.matching(schema["pattern"], rng, least)
    if text is None:
        text = words.text_for(name)(rng)
    while len(text) < least:
        text += rng.choice("abcdefghijklmnopqrstuvwxyz")
    return text if most is None else text[:most]


def _number(schema: dict[str, Any], name: str, rng: random.Random, whole: bool) -> int | float:
    """A multiple of ``multipleOf``, of 1 for integers, of 1/2 otherwise; the middle where the bounds leave no such point."""
    step = Fraction(str(schema["multipleOf"])) if "multipleOf" in schema else Fraction(1, 1 if whole else 2)
    if whole:
        step = Fraction(step.numerator)  # the whole multiples of p/q, in lowest terms, are those of p
    low, low_open = _bound(schema, "minimum", "exclusiveMinimum", max)
    high, high_open = _bound(schema, "maximum", "exclusiveMaximum", min)

    def grid(start: Fraction, end: Fraction) -> range:
        first, last = ceil(start / step), floor(end / step)
        first += low_open and low is not None and first * step == low
        last -= high_open and high is not None and last * step == high
        return range(first, last + 1)

    usual_low, usual_high = map(Fraction, words.range_for(name))
    points = grid(usual_low if low is None else max(low, usual_low), usual_high if high is None else min(high, usual_high))
    if not points:
        span = 100 * step
        start = low if low is not None else (high - span if high is not None else usual_low)
        end = high if high is not None else start + span
        points = grid(start, end)
        if not points:
            if whole or "multipleOf" in schema or start > end:
                raise _Nothing
            return float((start + end) / 2)
    value = step * points[rng.randrange(len(points))]
    return int(value) if value.denominator == 1 else float(value)


def _bound(schema: dict[str, Any], closed: str, opened: str, stricter: Any) -> tuple[Fraction | None, bool]:
    """The bound that counts, and whether it is itself excluded."""
    bounds = [(Fraction(str(schema[key])), key == opened) for key in (closed, opened) if key in schema]
    if not bounds:
        return None, False
    value = stricter(bound for bound, _ in bounds)
    return value, any(is_open for bound, is_open in bounds if bound == value)
