"""JSON Schema validation of arguments and outputs, with messages that a small model can read (method section 5, steps 1 and 5).

Draft 2020-12, or the draft that ``$schema`` names. Departures from the standard, all of them towards strictness or repeatability:
the formats in ``FORMATS`` are asserted, others are not; references never leave the document; of several faults the one that comes
first in a fixed order is told, whatever the order of the schema's keys.
"""

import json
import re
from collections.abc import Callable, Iterator
from datetime import date, datetime, time
from functools import lru_cache
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


def validator(schema: dict[str, Any]) -> Validator:
    """The compiled validator of ``schema``; one for each distinct schema of the process."""
    return _compiled(canonical_json(schema))


@lru_cache(maxsize=4096)
def _compiled(text: str) -> Validator:
    schema = json.loads(text)
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    return kind(schema, format_checker=_FORMAT_CHECKER, registry=EMPTY_REGISTRY)


def fault(compiled: Validator, value: Json, name: str) -> str | None:
    """Why ``value`` does not validate, in one short sentence that names the field (``name``: the whole value); None if it does.

    Raises ``Unusable`` where the schema itself cannot be evaluated.
    """
    try:
        if compiled.is_valid(value):
            return None
        errors = sorted(compiled.iter_errors(value), key=_rank)
    except (referencing.exceptions.Unresolvable, RecursionError) as error:
        raise Unusable(f"the schema of {name} cannot be evaluated: {error}") from None
    return _sentence(errors[0], name)


class Unusable(Exception):
    """A schema that no value can be checked against: a reference leads nowhere or round in circles."""


def check_usable(schema: dict[str, Any], where: str) -> None:
    """Refuse what ``check_schema`` lets pass but no validation survives. Raises ToolError that names ``where`` and the fault."""
    compiled = validator(schema)
    for keyword, value in _keywords(schema):
        if keyword == "$ref" and isinstance(value, str):
            if not value.startswith("#"):
                raise ToolError(f"{where}: $ref {value!r} leaves the document; copy its target under $defs.")
            try:
                compiled.evolve(schema={"$ref": value}).is_valid(None)
            except referencing.exceptions.Unresolvable:
                raise ToolError(f"{where}: $ref {value!r} has no target; add it under $defs.") from None
            except RecursionError:
                raise ToolError(f"{where}: $ref {value!r} refers to itself without end; break the circle.") from None


def _keywords(schema: Json) -> Iterator[tuple[str, Json]]:
    """Every key-value pair of the document's schemas."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key not in ("const", "enum", "default", "examples"):
                yield key, value
                yield from _keywords(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _keywords(value)


def finds(pattern: str, text: str) -> bool:
    """Whether a schema's ``pattern`` accepts ``text``: it may match anywhere."""
    return re.search(pattern, text) is not None


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
            patterned = schema.get("patternProperties", {})
            undeclared = set(instance) - set(schema.get("properties", {}))
            extra = sorted(key for key in undeclared if not any(finds(pattern, key) for pattern in patterned))
            return f"{prefix}{extra[0]} is not allowed here." if extra else f"{field}: {error.message}."
        case "type":
            kinds = wanted if isinstance(wanted, str) else " or ".join(wanted)
            return f"{field} must be of type {kinds}, not {type_name(error.instance)}."
        case "enum":
            known = ", ".join(value if isinstance(value, str) else canonical_json(value) for value in wanted)
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
