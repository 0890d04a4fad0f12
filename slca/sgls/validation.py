"""JSON Schema validation of arguments and outputs, with messages that a small model can read (method section 5, steps 1 and 5).

Draft 2020-12, or the draft that ``$schema`` names. Departures from the standard, all of them towards strictness or repeatability:
the formats in ``FORMATS`` are asserted, others are not; references never leave the document; of several faults the one that comes
first in a fixed order is told, whatever the order of the schema's keys; ``multipleOf`` is exact in decimal; patterns are read by
``slca.sgls.regexes``. Hostile values and schemas end in an error within a bounded time: the limits below say where.
"""

import json
import re
import sys
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from datetime import date, datetime, time
from fractions import Fraction
from functools import lru_cache
from math import isfinite
from threading import local
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import jsonschema
import referencing.exceptions
from jsonschema.protocols import Validator
from referencing.jsonschema import EMPTY_REGISTRY

from slca.errors import ToolError
from slca.files import canonical_json
from slca.records import Json
from slca.sgls import regexes
from slca.sgls.regexes import BadPattern, TooCostly, compiled_pattern, finds

LONGEST_MESSAGE = 160
"""Characters of a fault's message; a longer one is cut at its end."""


def is_date(text: str) -> bool:
    return re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text) is not None and _parses(date.fromisoformat, text)


def _is_time(text: str) -> bool:
    return re.match(r"[0-9]{2}:[0-9]{2}", text) is not None and _parses(time.fromisoformat, text)


def _is_date_time(text: str) -> bool:
    return text[10:11] in ("T", "t", " ") and is_date(text[:10]) and _parses(datetime.fromisoformat, text)


def _is_email(text: str) -> bool:
    return re.fullmatch(r"[^@\s]+@[^@\s]+", text) is not None


def _is_uri(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:\S+", text) is not None and _parses(urlsplit, text)


def _is_uuid(text: str) -> bool:
    return len(text) == 36 and _parses(UUID, text)


def _parses(parser: Callable[[str], Any], text: str) -> bool:
    try:
        parser(text)
    except ValueError:
        return False
    return True


FORMATS: dict[str, tuple[Callable[[str], bool], str]] = {
    "date": (is_date, "a date like 2026-03-01"),
    "time": (_is_time, "a time like 18:30"),
    "date-time": (_is_date_time, "a date and time like 2026-03-01T18:30:00"),
    "email": (_is_email, "an email address"),
    "uri": (_is_uri, "a URI like https://example.org"),
    "uuid": (_is_uuid, "a UUID"),
}
"""Asserted formats: name -> (test, what a message calls it). Own tests, since jsonschema's vary with what else is installed."""


def _format_checker() -> jsonschema.FormatChecker:
    checker = jsonschema.FormatChecker(formats=())
    for name, (test, _) in FORMATS.items():
        checker.checks(name)(lambda value, test=test: not isinstance(value, str) or test(value))
    return checker


_FORMAT_CHECKER = _format_checker()


DEEPEST_VALUE = 64
MOST_VALUES = 100_000
MOST_CHARACTERS = 2**20
"""Levels, values and characters of text (keys too) that arguments or a result may have."""
LARGEST_NUMBER = 2**1024
"""Integers from here on have no double: no JSON reader but Python's takes them."""
DEEPEST_SCHEMA = 64
"""Levels; jsonschema takes eight frames of the stack for each when it checks a schema by its metaschema."""
MOST_REFERENCES = 50_000
"""References that one check may follow: recursive schemas branch, and the branches multiply."""
_TOO_DEEP = f"the schema is nested more than {DEEPEST_SCHEMA} levels deep"


def unfit(value: Json) -> str | None:
    """Why ``value`` is not to be handled at all, as a clause; None if it is. Takes time in proportion to the limits, no more.

    Past this, a value is JSON that can be written, hashed and walked through by recursion.
    """
    level = [value]
    values = characters = 0
    for _ in range(DEEPEST_VALUE + 1):
        below: list[Json] = []
        for item in level:
            if isinstance(item, str):
                characters += len(item)
                if characters > MOST_CHARACTERS:
                    return f"more than {MOST_CHARACTERS} characters of text"
                if not _is_text(item):
                    return "broken text, a lone surrogate"
            elif isinstance(item, dict):
                for key in item:
                    if not isinstance(key, str):
                        return f"a key of type {type(key).__name__}"
                    below.append(key)
                below += item.values()
            elif isinstance(item, list):
                below += item
            elif isinstance(item, float):
                if not isfinite(item):
                    return "NaN or infinity, which JSON does not have"
            elif isinstance(item, int):
                if not -LARGEST_NUMBER < item < LARGEST_NUMBER:
                    return "a number of more than 308 digits"
            elif item is not None:
                return f"a value of type {type(item).__name__}, which JSON does not have"
            if values + len(below) > MOST_VALUES:
                return f"more than {MOST_VALUES} values"
        if not below:
            return None
        values += len(below)
        level = below
    return f"nested more than {DEEPEST_VALUE} levels deep"


def _is_text(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def validator(schema: dict[str, Any]) -> Validator:
    """The compiled validator of ``schema``; one for each distinct schema of the process.

    Raises ``Unusable``: no JSON, too deep, or a pattern that cannot be used.
    """
    return _compiled(_text(schema))


def _text(schema: dict[str, Any]) -> str:
    try:
        return canonical_json(schema)
    except (ValueError, TypeError) as error:
        raise Unusable(f"the schema is no JSON: {error}") from None
    except RecursionError:
        raise Unusable(_TOO_DEEP) from None


@lru_cache(maxsize=4096)
def _compiled(text: str) -> Validator:
    schema = json.loads(text)
    kind = _draft(schema)
    prepared = _prepared(schema, 0)
    if {"unevaluatedProperties", "patternProperties"} <= {keyword for keyword, _ in _keywords(prepared)}:
        # jsonschema looks for evaluated properties with Python's re, which can be made to run without end.
        raise Unusable("unevaluatedProperties beside patternProperties is not supported; use additionalProperties")
    try:
        compiled: Validator = _bounded_kind(kind)(prepared, format_checker=_FORMAT_CHECKER, registry=EMPTY_REGISTRY)
    except BROKEN as error:
        raise Unusable(f"the schema cannot be evaluated: {error}") from None
    return compiled


def _draft(schema: dict[str, Any]) -> Any:
    """The validator class of the draft that ``$schema`` names; that of 2020-12 where it names none or another."""
    try:
        return jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    except (TypeError, ValueError, AttributeError):
        raise Unusable(f"$schema {str(schema['$schema'])[:60]!r} is no URI") from None


class Unusable(Exception):
    """A schema that no value can be checked against: a reference leads nowhere or round in circles, a pattern is none."""


BROKEN = (
    referencing.exceptions.Unresolvable,
    RecursionError,
    ArithmeticError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
)
"""What jsonschema and referencing raise on schemas that their metaschema lets pass: odd ids, references into keywords, ..."""

_DATA = ("const", "enum", "default", "examples", "example")
"""Keywords whose values are no schemas."""


def _prepared(schema: Json, depth: int) -> Json:
    """A copy of ``schema`` for checking. Raises Unusable.

    ``$schema`` counts at the top only: below, jsonschema would go on with a validator that knows no limits.
    """
    if depth > DEEPEST_SCHEMA:
        raise Unusable(_TOO_DEEP)
    if isinstance(schema, list):
        return [_prepared(item, depth + 1) for item in schema]
    if not isinstance(schema, dict):
        return schema
    for pattern in _patterns(schema):
        try:
            compiled_pattern(pattern)
        except BadPattern as bad:
            raise Unusable(f"the pattern {pattern[:60]!r} cannot be used: {bad}") from None
    prepared = {}
    # unevaluated... last: it follows references too, and must not be the first to meet a circle.
    for key, value in sorted(schema.items(), key=lambda item: item[0].startswith("unevaluated")):
        if key == "enum" and isinstance(value, list):
            prepared[key] = _Enum(value)
        elif key != "$schema" or not isinstance(value, str):
            prepared[key] = value if key in _DATA else _prepared(value, depth + 1)
    return prepared


class _Enum(list[Json]):
    """An enum that is looked up instead of gone through."""

    def __init__(self, values: list[Json]) -> None:
        super().__init__(values)
        self.identities = frozenset(map(_identity, values))


def _patterns(schema: dict[str, Json]) -> list[str]:
    """The regular expressions among a schema's own keywords."""
    patterned = schema.get("patternProperties")
    own = [schema["pattern"]] if isinstance(schema.get("pattern"), str) else []
    return own + (list(patterned) if isinstance(patterned, dict) else [])


def _identity(value: Json) -> Hashable:
    """Equal for equal JSON values and no others: 1 equals 1.0, not true; the order of keys does not count."""
    if isinstance(value, list):
        return tuple(map(_identity, value))
    if isinstance(value, dict):
        return frozenset((key, _identity(item)) for key, item in value.items())
    return (isinstance(value, bool), value)


class _Work(local):
    """What the checks under way in this thread may still cost. followed: references that are being followed, each with the value
    that it is followed for: the same again is a circle."""

    references: int | None = None
    followed: set[tuple[int, str, str]]


_work = _Work()


@contextmanager
def limited(references: int = MOST_REFERENCES) -> Iterator[None]:
    """All checks of this thread within the block share what one check may cost; an inner block shares the outer one's."""
    if _work.references is not None:
        yield
        return
    _work.references, _work.followed = references, set()
    try:
        with regexes.limited():
            yield
    finally:
        _work.references = None


def _pattern(validator: Validator, pattern: str, instance: Json, schema: Json) -> Iterator[jsonschema.ValidationError]:
    if isinstance(instance, str) and not finds(pattern, instance):
        yield jsonschema.ValidationError("does not match its pattern")


def _pattern_properties(validator: Any, wanted: Json, instance: Json, schema: Json) -> Iterator[jsonschema.ValidationError]:
    if isinstance(instance, dict):
        for pattern, part in wanted.items():
            for key, value in instance.items():
                if finds(pattern, key):
                    yield from validator.descend(value, part, path=key, schema_path=pattern)


def _undeclared(instance: dict[str, Json], schema: dict[str, Json]) -> list[str]:
    declared, patterned = schema.get("properties", {}), schema.get("patternProperties", {})
    return [key for key in instance if key not in declared and not any(finds(pattern, key) for pattern in patterned)]


def _additional_properties(validator: Any, wanted: Json, instance: Json, schema: Json) -> Iterator[jsonschema.ValidationError]:
    if isinstance(instance, dict) and wanted is not True:
        extra = _undeclared(instance, schema)
        if wanted is False and extra:
            yield jsonschema.ValidationError("has properties that are not allowed")
        elif wanted is not False:
            for key in extra:
                yield from validator.descend(instance[key], wanted, path=key)


def _enum(validator: Validator, wanted: Json, instance: Json, schema: Json) -> Iterator[jsonschema.ValidationError]:
    if _identity(instance) not in (wanted.identities if isinstance(wanted, _Enum) else map(_identity, wanted)):
        yield jsonschema.ValidationError("is none of the values allowed")


def _unique_items(validator: Validator, wanted: Json, instance: Json, schema: Json) -> Iterator[jsonschema.ValidationError]:
    if wanted and isinstance(instance, list) and len(set(map(_identity, instance))) < len(instance):
        yield jsonschema.ValidationError("has equal items")


def _multiple_of(validator: Validator, wanted: Json, instance: Json, schema: Json) -> Iterator[jsonschema.ValidationError]:
    if isinstance(instance, int | float) and not isinstance(instance, bool) and exact(instance) % exact(wanted):
        yield jsonschema.ValidationError(f"is not a multiple of {wanted}")


def exact(number: int | float) -> Fraction:
    """A JSON number as it is written: 0.1 is a tenth."""
    return Fraction(number if isinstance(number, int) else repr(number))


def _counted(keyword: Any) -> Any:
    """A reference keyword that counts what it follows, and notices circles and depth.

    Python's own RecursionError must not happen inside jsonschema: raised within rpds, it ends the process.
    """

    def check(validator: Any, wanted: Json, instance: Json, schema: Json) -> Iterator[jsonschema.ValidationError]:
        if _work.references is None:
            raise RuntimeError("schemas are checked within validation.limited() only")
        _refuse_depth()
        if not _work.references:
            raise TooCostly("checking follows too many references.")
        _work.references -= 1
        step = (id(instance), str(wanted), str(validator._resolver._base_uri))
        if step in _work.followed:
            raise Unusable(f"$ref {str(wanted)[:60]!r} refers to itself without end; break the circle")
        _work.followed.add(step)
        try:
            yield from keyword(validator, wanted, instance, schema)
        finally:
            _work.followed.discard(step)

    return check


def _guarded(keyword: Any) -> Any:
    """A keyword with schemas inside, which notices depth."""

    def check(validator: Any, wanted: Json, instance: Json, schema: Json) -> Any:
        _refuse_depth()
        return keyword(validator, wanted, instance, schema)

    return check


def _refuse_depth() -> None:
    try:
        sys._getframe(sys.getrecursionlimit() - _FRAMES)
    except ValueError:  # the stack is not that deep
        return
    raise TooCostly("schemas and values are nested too deep to be checked.")


_FRAMES = 400
"""Room on the stack for what jsonschema does within one keyword, and for its calls through C, which count and are no frames."""

_DEEPENING = (
    *("properties", "items", "prefixItems", "additionalItems", "contains", "propertyNames", "dependentSchemas", "dependencies"),
    *("allOf", "anyOf", "oneOf", "not", "if", "extends", "unevaluatedProperties", "unevaluatedItems"),
)

_KEYWORDS: dict[str, Any] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "enum": _enum,
    "uniqueItems": _unique_items,
    "multipleOf": _multiple_of,
    "divisibleBy": _multiple_of,
}
"""Keywords whose check in jsonschema has no bound on its time, fails on large numbers, or knows Python's patterns only."""


@lru_cache(maxsize=16)
def _bounded_kind(kind: Any) -> Any:
    """A draft's validator class, with keywords that hostile input cannot make endless."""
    known = kind.VALIDATORS
    references = {name: _counted(known[name]) for name in ("$ref", "$dynamicRef", "$recursiveRef") if name in known}
    deepening = {name: _guarded(known[name]) for name in _DEEPENING if name in known}
    own = {name: check for name, check in _KEYWORDS.items() if name in known}
    extend: Any = jsonschema.validators.extend
    return extend(kind, {**deepening, **own, **references})


def fault(compiled: Validator, value: Json, name: str) -> str | None:
    """Why ``value`` does not validate, in one short sentence that names the field (``name``: the whole value); None if it does.

    Raises ``Unusable`` where the schema itself cannot be evaluated, ``TooCostly`` where that would take too long.
    """
    try:
        with limited():
            if compiled.is_valid(value):
                return None
            return _sentence(min(compiled.iter_errors(value), key=_rank), name)
    except BROKEN as error:
        raise Unusable(f"the schema of {name} cannot be evaluated: {error}") from None


def check_schema(schema: dict[str, Any], where: str) -> None:
    """Refuse what is no JSON Schema of its draft. Raises ToolError that names ``where``, the place and the fault.

    Formats are not asserted: patterns are tried by ``compiled_pattern`` instead.
    """
    try:
        _prepared(json.loads(_text(schema)), 0)  # first: what follows goes by recursion
        kind, definitions = _draft(schema), schema.get("$defs")
        parts: dict[str, Json] = {"": schema}
        if kind is jsonschema.Draft202012Validator and isinstance(definitions, dict):
            # One by one: the tools of a document share them, and each takes milliseconds.
            parts = {"": {**schema, "$defs": {}}, **{f"$defs/{name}/": part for name, part in definitions.items()}}
        for prefix, part in parts.items():
            told = _schema_fault(kind, canonical_json(part))
            if told is not None:
                place = f"{prefix}{told[0]}".removesuffix("/") or "the top"
                raise ToolError(f"{where} is not a valid JSON Schema: at {place}: {told[1][:LONGEST_MESSAGE]}.")
    except Unusable as unusable:
        raise ToolError(f"{where}: {unusable}.") from None


_NO_FORMATS = jsonschema.FormatChecker(formats=())


@lru_cache(maxsize=4096)
def _schema_fault(kind: Any, text: str) -> tuple[str, str] | None:
    """Place and message of what makes a schema none of its draft; None if it is one."""
    try:
        kind.check_schema(json.loads(text), format_checker=_NO_FORMATS)
    except jsonschema.SchemaError as error:
        return "/".join(str(part) for part in error.absolute_path), error.message
    return None


def check_usable(schema: dict[str, Any], where: str) -> None:
    """Refuse what ``check_schema`` lets pass but no validation survives. Raises ToolError that names ``where`` and the fault."""
    try:
        compiled = validator(schema)
        with limited():
            for keyword, value in _keywords(schema):
                if keyword == "$ref" and isinstance(value, str):
                    _check_reference(compiled, value, where)
                elif keyword in ("pattern", "patternProperties"):
                    for pattern in _patterns({keyword: value}):
                        _check_cost(pattern)
    except (Unusable, TooCostly) as problem:
        raise ToolError(f"{where}: {str(problem).removesuffix('.')}.") from None


def _check_reference(compiled: Any, reference: str, where: str) -> None:
    if not reference.startswith("#"):
        raise ToolError(f"{where}: $ref {reference!r} leaves the document; copy its target under $defs.")
    try:
        compiled.evolve(schema={"$ref": reference}).is_valid(None)
    except BROKEN:
        raise ToolError(f"{where}: $ref {reference!r} has no target; add it under $defs.") from None


def _check_cost(pattern: str) -> None:
    """Raises TooCostly for a pattern that backtracks without end on long runs of one of its characters."""
    for character in sorted({*"a0 ", *(c for c in pattern[:64] if c.isprintable())}):
        finds(pattern, character * 40 + "\n\0")


def _keywords(schema: Json) -> Iterator[tuple[str, Json]]:
    """Every key-value pair of the document's schemas."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key not in _DATA:
                yield key, value
                yield from _keywords(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _keywords(value)


def type_name(value: Json) -> str:
    """The JSON Schema type of a value, as messages name it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    names = {int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), type(value).__name__)


def _rank(error: jsonschema.ValidationError) -> tuple[int, str, str, str]:
    return len(error.absolute_path), str(list(error.absolute_path)), str(error.validator), error.message


def _sentence(error: jsonschema.ValidationError, name: str) -> str:
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path).removeprefix(".")
    field = field if len(field) <= LONGEST_MESSAGE // 2 else f"...{field[3 - LONGEST_MESSAGE // 2 :]}"
    text = _fault_text(error, field or name, f"{field}." if field else "")
    return text if len(text) <= LONGEST_MESSAGE else text[: LONGEST_MESSAGE - 3] + "..."


def _fault_text(error: jsonschema.ValidationError, field: str, prefix: str) -> str:
    wanted: Json = error.validator_value
    schema: Json = error.schema
    instance: Json = error.instance
    match error.validator:
        case "required":
            missing = next(key for key in wanted if key not in instance and error.message.startswith(repr(key)))
            return f"{prefix}{missing} is missing."
        case "additionalProperties" if wanted is False:
            return f"{prefix}{min(_undeclared(instance, schema))} is not allowed here."
        case "type":
            kinds = wanted if isinstance(wanted, str) else " or ".join(wanted)
            return f"{field} must be of type {kinds}, not {type_name(error.instance)}."
        case "enum":
            known = ", ".join(value if isinstance(value, str) else canonical_json(value) for value in wanted[:LONGEST_MESSAGE])
            return f"{field} must be one of {known}."
        case "const":
            return f"{field} must be {canonical_json(wanted)}."
        case "minimum":
            return f"{field} must be at least {wanted}."
        case "maximum":
            return f"{field} must be at most {wanted}."
        case "format":
            return f"{field} must be {FORMATS[wanted][1]}."
        case "pattern":
            return f"{field} must match the pattern {wanted}."
        case "minLength":
            return f"{field} must have at least {wanted} characters."
        case "maxLength":
            return f"{field} must have at most {wanted} characters."
        case "minItems":
            return f"{field} must have at least {wanted} items."
        case "maxItems":
            return f"{field} must have at most {wanted} items."
        case _:
            return f"{field}: {error.message}."
