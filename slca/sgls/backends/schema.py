"""The embedded backend: values from the output schema and a seed alone (method section 5, backend ``schema``).

Deterministic: every node of the value is drawn from (seed, subject, repair, path to the node), so neither the order of a
schema's keys nor a neighbouring property changes it, in any process. A property with an argument's name takes the argument's
value where that validates. References, allOf, one branch of each choice and the schemas of dependencies are joined into one
schema to draw from; what cannot be built towards (oneOf, not, look-around, uniqueItems, ...) is met by drawing a node again until
it validates, at most ``TRIES`` times at the top and fewer below. Optional properties for which nothing is found are left out.
Recursion ends: below ``SHALLOW`` levels optional properties and items are left out, below ``DEEPEST`` nothing is drawn, and the
whole value is given up after ``MOST_NODES`` drawn nodes, ``MOST_MERGES`` joined schemas, or checks that cost too much. The answer
is then null, which the simulator refuses like any other wrong answer.
"""

import random
from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor, lcm
from typing import Any

from jsonschema.protocols import Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from slca.files import canonical_json, derive_seed
from slca.records import Json
from slca.sgls import validation
from slca.sgls.backends import texts, words
from slca.sgls.backends.base import Request
from slca.sgls.regexes import TooCostly, finds

TRIES = 24
LEAST_TRIES = 6
SHALLOW = 3
DEEPEST = 12
MOST_NODES = 3000
MOST_MERGES = 30_000
MOST_REFERENCES = 20_000

_DEPENDENT = ("dependentSchemas", "dependencies")
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
    prompt_version = "2"
    remembers = False

    def fill(self, request: Request) -> Json:
        seed = derive_seed("schema backend", request.seed, request.subject, request.repair)
        try:
            with validation.limited(MOST_REFERENCES):
                draw = _Draw(validation.validator(request.schema), request.arguments, seed)
                return draw.value(draw.root, (), 0)
        except (_Nothing, _Endless, TooCostly, validation.Unusable, RecursionError):
            return None


class _Nothing(Exception):
    """No value can be drawn here."""


class _Endless(Exception):
    """Too many nodes were drawn."""


class _Draw:
    def __init__(self, compiled: Validator, arguments: dict[str, Json], seed: int) -> None:
        self.root: Json = compiled.schema
        self._compiled: Any = compiled
        registry: Registry[Any] = Registry()
        self._resolver = registry.with_resource("", DRAFT202012.create_resource(self.root)).resolver()
        self._arguments = arguments
        self._seed = seed
        self._nodes = 0
        self._merges = 0

    def value(self, schema: Json, path: tuple[str | int, ...], depth: int) -> Json:
        """A value for the node at ``path``. Raises _Nothing where none validates."""
        if schema is False or depth > DEEPEST:
            raise _Nothing
        if not isinstance(schema, dict):
            schema = {}
        checked = bool(_REDRAWN & schema.keys())
        for attempt in range(max(LEAST_TRIES, TRIES >> depth) if checked else 1):
            self._nodes += 1
            if self._nodes > MOST_NODES:
                raise _Endless
            rng = random.Random(derive_seed(self._seed, list(path), attempt))
            # Another try draws everything below anew too.
            below = (*path, attempt) if attempt else path
            try:
                value = self._once(self._merged(schema, rng, depth), below, depth, rng, attempt)
            except _Nothing:
                continue
            if not checked or self._is_valid(schema, value):
                return value
        raise _Nothing

    def _is_valid(self, schema: Json, value: Json) -> bool:
        compiled: Validator = self._compiled.evolve(schema=schema)
        try:
            return validation.fault(compiled, value, "value") is None
        except validation.Unusable:
            return False

    def _merged(self, schema: dict[str, Any], rng: random.Random, depth: int) -> dict[str, Any]:
        """``schema`` with its references followed, its parts joined and one branch of each choice taken."""
        self._merges += 1
        if depth > DEEPEST or self._merges > MOST_MERGES:
            raise _Nothing
        merged: Json = {key: value for key, value in schema.items() if key not in _COMBINED}
        parts: list[Json] = list(schema.get("allOf", ()))
        for key in ("$ref", "$dynamicRef"):
            if key in schema:
                try:
                    parts.append(self._resolver.lookup(schema[key]).contents)
                except validation.BROKEN:
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
            rest = {key: value for key, value in schema.items() if key != "enum"}
            allowed = [value for value in schema["enum"] if not rest or self._is_valid(rest, value)]
            if not allowed:
                raise _Nothing
            return rng.choice(allowed)
        name = next((part for part in reversed(path) if isinstance(part, str)), "")
        match _kind(schema, rng, attempt):
            case "object":
                return self._object(schema, path, depth, rng, attempt)
            case "array":
                return self._array(schema, path, depth, rng, attempt)
            case "integer":
                return _number(schema, name, rng, attempt, whole=True)
            case "number":
                return _number(schema, name, rng, attempt, whole=False)
            case "boolean":
                return rng.random() < 0.5
            case "null":
                return None
            case _:
                return _text(schema, name, rng)

    def _object(self, schema: dict[str, Any], path: tuple[str | int, ...], depth: int, rng: random.Random, attempt: int) -> Json:
        names = self._names(schema, depth, rng, attempt)
        for _ in range(DEEPEST):  # what the presence of a name asks for may bring further names
            asked = [part for name, part in _dependent(schema, "dependentSchemas", dict).items() if name in names]
            if not asked:
                break
            for part in asked:
                schema = self._joined_with(schema, part, rng, depth)
            names = self._names(schema, depth, rng, attempt, names)
        properties: dict[str, Json] = schema.get("properties", {})
        required = set(schema.get("required", ()))
        value = {}
        for key in dict.fromkeys((*(key for key in properties if key in names), *names)):  # in the schema's order
            try:
                value[key] = self._property(schema, key, (*path, key), depth)
            except _Nothing:
                if key in required:
                    raise
        return value

    def _joined_with(self, schema: dict[str, Any], part: Json, rng: random.Random, depth: int) -> dict[str, Any]:
        joined = _joined(
            {key: value for key, value in schema.items() if key not in _DEPENDENT}, self._merged({"allOf": [part]}, rng, depth)
        )
        if not isinstance(joined, dict):
            raise _Nothing
        return joined

    def _names(
        self, schema: dict[str, Any], depth: int, rng: random.Random, attempt: int, present: Sequence[str] = ()
    ) -> list[str]:
        """The names of an object's properties. present: those that it has in any case."""
        properties: dict[str, Json] = schema.get("properties", {})
        required = list(dict.fromkeys([*schema.get("required", ()), *present]))
        needed = _dependent(schema, "dependentRequired", list)
        most = schema.get("maxProperties", len(properties) + len(required) + schema.get("minProperties", 0))
        # Every optional property where that is allowed; on every other try a part of them, in case they exclude each other.
        optional = sorted(properties.keys() - set(required)) if depth < SHALLOW else []
        optional = [key for key in optional if attempt % 2 == 0 or rng.random() < 0.5]
        names = required + optional[: max(0, int(most) - len(required))]
        for name in names:  # the list grows under way
            names += [key for key in needed.get(name, ()) if key not in names]
        if attempt and len(names) > most:
            names = required[:]
            for name in names:
                names += [key for key in needed.get(name, ()) if key not in names]
        if "propertyNames" in schema:
            names = [name for name in names if name in required or self._is_valid(schema["propertyNames"], name)]
        spare = sorted(properties.keys() - set(names), key=lambda name: (rng.random(), name))
        for number in range(TRIES):
            if len(names) >= schema.get("minProperties", 0):
                break
            name = spare.pop() if spare else self._new_name(schema, rng, number)
            if name not in names and ("propertyNames" not in schema or self._is_valid(schema["propertyNames"], name)):
                names.append(name)
        return names

    def _new_name(self, schema: dict[str, Any], rng: random.Random, number: int) -> str:
        """A name for a property that the schema does not list."""
        allowed = schema.get("propertyNames")
        patterned = sorted(schema.get("patternProperties", {}))
        if isinstance(allowed, dict) and (allowed.keys() - {"type"}) and number % 2 == 0:
            name = self.value({"type": "string", **allowed}, ("name", rng.getrandbits(32)), DEEPEST)
            return str(name)
        if patterned and (schema.get("additionalProperties") is False or number % 2):
            return _text({"pattern": rng.choice(patterned)}, "", rng)
        return f"{words.word_number(rng)}{number or ''}"

    def _property(self, schema: dict[str, Any], key: str, path: tuple[str | int, ...], depth: int) -> Json:
        patterned = [part for pattern, part in schema.get("patternProperties", {}).items() if finds(pattern, key)]
        declared = schema.get("properties", {})
        parts = ([declared[key]] if key in declared else []) + patterned or [schema.get("additionalProperties", True)]
        wanted: Json = parts[0]
        for part in parts[1:]:
            wanted = {"allOf": [wanted, part]}
        if depth == 0 and key in self._arguments and self._is_valid(wanted, self._arguments[key]):
            return self._arguments[key]
        return self.value(wanted, path, depth + 1)

    def _array(self, schema: dict[str, Any], path: tuple[str | int, ...], depth: int, rng: random.Random, attempt: int) -> Json:
        items = schema.get("items", True)
        # A list of items is draft-07's spelling of prefixItems.
        fixed = list(items if isinstance(items, list) else schema.get("prefixItems", ()))
        rest = schema.get("additionalItems", True) if isinstance(items, list) else items
        matching = int(schema.get("minContains", 1)) if "contains" in schema else 0
        least = max(int(schema.get("minItems", 0)), matching)
        if least > MOST_NODES:
            raise _Nothing
        usual = (max(1, len(fixed)), max(2, len(fixed))) if depth < SHALLOW else (0, 0)
        most = int(schema.get("maxItems", max(least, usual[1])))
        if rest is False:
            most = min(most, len(fixed))
        low = max(least, min(usual[0], most))
        length = low + rng.randrange(max(0, min(max(usual[1], low), most) - low) + 1)
        if attempt % 2:  # a shorter one, in case that there are not so many different items
            length = least + rng.randrange(max(1, length - least + 1))
        # The items that ``contains`` asks for: the last ones, on further tries any.
        chosen = set(rng.sample(range(length), matching) if attempt and matching <= length else range(length - matching, length))
        value: list[Json] = []
        for index in range(length):
            wanted = fixed[index] if index < len(fixed) else rest
            if index in chosen:
                wanted = _both(wanted, schema["contains"])
            elif attempt and "maxContains" in schema and "contains" in schema:
                wanted = _both(wanted, {"not": schema["contains"]})
            try:
                for draw in range(TRIES if schema.get("uniqueItems") else 1):
                    item = self.value(wanted, (*path, rng.getrandbits(32), draw), depth + 1)
                    if canonical_json(item) not in map(canonical_json, value):
                        break
            except _Nothing:
                if index < least or chosen:
                    raise
                break  # there may be no such item at all; the array does without
            value.append(item)
        return value


def _text(schema: dict[str, Any], name: str, rng: random.Random) -> str:
    text = texts.text(schema, name, rng)
    if text is None:
        raise _Nothing
    return text


def _both(left: Json, right: Json) -> Json:
    joinable = isinstance(left, dict) and isinstance(right, dict) and not {"not", *_COMBINED} & (left.keys() | right.keys())
    return _joined(left, right) if joinable else {"allOf": [left, right]}


def _dependent(schema: dict[str, Any], keyword: str, kind: type) -> dict[str, Any]:
    """A keyword of dependencies, with what draft-07 writes under ``dependencies``: lists of names, and schemas."""
    older = {name: part for name, part in schema.get("dependencies", {}).items() if isinstance(part, list) is (kind is list)}
    return {**older, **schema.get(keyword, {})}


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
    left, right = _closed(left, right), _closed(right, left)
    joined = {**left, **right}
    for key in left.keys() & right.keys():
        ours, theirs = left[key], right[key]
        if key in ("properties", "patternProperties", "dependentSchemas"):
            joined[key] = {**ours, **theirs, **{name: _both(ours[name], theirs[name]) for name in ours if name in theirs}}
        elif (
            key in ("items", "additionalProperties", "propertyNames")
            and not isinstance(ours, list)
            and not isinstance(theirs, list)
        ):
            joined[key] = _both(ours, theirs)
        elif key == "prefixItems":
            pairs = [_both(*pair) for pair in zip(ours, theirs, strict=False)]
            joined[key] = pairs + ours[len(pairs) :] + theirs[len(pairs) :]
        elif key == "required":
            joined[key] = [*ours, *(name for name in theirs if name not in ours)]
        elif key == "dependentRequired":
            joined[key] = {name: [*ours.get(name, ()), *theirs.get(name, ())] for name in [*ours, *theirs]}
        elif key == "enum":
            joined[key] = [value for value in ours if canonical_json(value) in map(canonical_json, theirs)]
        elif key == "not":
            joined[key] = {"anyOf": [ours, theirs]}
        elif key == "type":
            joined[key] = _common_types(ours, theirs)
        elif key == "pattern" and ours != theirs:
            joined[texts.PATTERNS] = [*left.get(texts.PATTERNS, ()), *right.get(texts.PATTERNS, ()), ours]
        elif key == "multipleOf":
            joined[key] = _common_multiple(ours, theirs)
        elif key == "uniqueItems":
            joined[key] = ours or theirs
        elif key in _LARGER:
            joined[key] = max(ours, theirs)
        elif key in _SMALLER:
            joined[key] = min(ours, theirs)
    return joined


def _closed(schema: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """``schema``, which says no to those properties of ``other`` that its ``additionalProperties`` refuses."""
    if schema.get("additionalProperties") is not False:
        return schema
    known, patterned = schema.get("properties", {}), schema.get("patternProperties", {})
    unknown = [key for key in other.get("properties", {}) if key not in known and not any(finds(p, key) for p in patterned)]
    return {**schema, "properties": {**known, **dict.fromkeys(unknown, False)}} if unknown else schema


def _common_multiple(left: float, right: float) -> float:
    ours, theirs = validation.exact(left), validation.exact(right)
    common = Fraction(
        lcm(ours.numerator * theirs.denominator, theirs.numerator * ours.denominator), ours.denominator * theirs.denominator
    )
    return int(common) if common.denominator == 1 else float(common)


def _types(kinds: Json) -> list[str]:
    return [kinds] if isinstance(kinds, str) else list(kinds)


def _common_types(left: Json, right: Json) -> list[str]:
    ours, theirs = _types(left), _types(right)
    # Integers are numbers: integer and number have integer in common.
    narrower = ["integer"] if {"integer", "number"} <= {*ours, *theirs} else []
    return [kind for kind in ours if kind in theirs] or narrower


def _kind(schema: dict[str, Any], rng: random.Random, attempt: int) -> str:
    if "type" in schema:
        kinds = _types(schema["type"])
        if not kinds:
            raise _Nothing
        return rng.choice([kind for kind in kinds if kind != "null" or attempt % 2] or kinds)
    told = next((kind for kind, keywords in _KINDS.items() if keywords & schema.keys()), "string")
    # A schema without a type may still refuse the kind that its keywords speak of: every other try is one of the others.
    return told if attempt % 2 or not attempt else _OTHER_KINDS[(attempt // 2 - 1) % len(_OTHER_KINDS)]


_OTHER_KINDS = ("integer", "boolean", "null", "object", "array", "number", "string")


def _number(schema: dict[str, Any], name: str, rng: random.Random, attempt: int, whole: bool) -> int | float:
    """A multiple of ``multipleOf``, of 1 for integers, of 1/2 otherwise; the middle where the bounds leave no such point."""
    step = validation.exact(schema["multipleOf"]) if "multipleOf" in schema else Fraction(1, 1 if whole else 2)
    if whole:
        step = Fraction(step.numerator)  # the whole multiples of p/q, in lowest terms, are those of p
    low, low_open = _bound(schema, "minimum", "exclusiveMinimum", max)
    high, high_open = _bound(schema, "maximum", "exclusiveMaximum", min)

    def grid(start: Fraction, end: Fraction) -> tuple[int, int]:
        """The multiples of the step: the first one, and how many."""
        first, last = ceil(start / step), floor(end / step)
        first += low_open and low is not None and first * step == low
        last -= high_open and high is not None and last * step == high
        return first, max(0, last + 1 - first)

    usual_low, usual_high = map(Fraction, words.range_for(name))
    if attempt > 2:  # something refuses the usual values
        usual_low, usual_high = Fraction(-(10 ** (attempt // 2))), Fraction(10 ** (attempt // 2))
    first, count = grid(usual_low if low is None else max(low, usual_low), usual_high if high is None else min(high, usual_high))
    if not count:
        span = 100 * step
        start = low if low is not None else (high - span if high is not None else usual_low)
        end = high if high is not None else start + span
        first, count = grid(start, end)
        if not count:
            if whole or "multipleOf" in schema or start > end:
                raise _Nothing
            return float((start + end) / 2)
    for _ in range(TRIES):
        value = step * (first + rng.randrange(count))
        # Validators that divide floats take 0.3 for no multiple of 0.1; where there is one that they take, it is preferred.
        if step.denominator == 1 or (float(value) / float(step)).is_integer():
            break
    return int(value) if value.denominator == 1 else float(value)


def _bound(schema: dict[str, Any], closed: str, opened: str, stricter: Any) -> tuple[Fraction | None, bool]:
    """The bound that counts, and whether it is itself excluded."""
    bounds = [(validation.exact(schema[key]), key == opened) for key in (closed, opened) if key in schema]
    if not bounds:
        return None, False
    value = stricter(bound for bound, _ in bounds)
    return value, any(is_open for bound, is_open in bounds if bound == value)
