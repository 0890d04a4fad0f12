"""Ids of records: the keys of the state, what answers show of them, and new ones.

A key is a string. A whole number names the record of its digits, so ids that are numbers are kept as digits and shown as numbers.
Where ids are unique within other records only (``Behaviour.scope``), the key is all of them, ``/`` between and escaped inside.

A new id is drawn from entity and content. While an id is taken, the next one of the same drawn sequence is tried: equal records
get distinct ids, the same ones in any order. Creations of *different* content end in the same state in any order unless two of
their first ids meet: 1 in 9,000 for a pair, far less for UUIDs.
"""

import random
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from slca.files import derive_seed
from slca.records import Json
from slca.sgls import validation
from slca.sgls.backends import words
from slca.sgls.backends.base import Request
from slca.sgls.backends.schema import SchemaBackend
from slca.sgls.tool import Behaviour

TRIES = 1000
"""Ids drawn for one new record before the service says that none is left."""


def as_id(value: Json) -> str:
    """The text that ``value`` is as an id; "" for what can be none."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value if isinstance(value, str) else ""


def scoped(own: str, scope: Sequence[str], arguments: Mapping[str, Json]) -> str:
    """The state's key of the record that is called ``own`` within what the arguments ``scope`` name."""
    if not scope:
        return own
    return "/".join(_escaped(part) for part in (*(as_id(arguments.get(name)) for name in scope), own))


def parts(record_id: str) -> list[str]:
    """The ids in a key that has a scope, the record's own one last."""
    return [part.replace("%2F", "/").replace("%25", "%") for part in record_id.split("/")]


def shown(behaviour: Behaviour, record_id: str) -> Json:
    """The id of an answer: without its scope, as a number where ids are numbers."""
    own = parts(record_id)[-1] if behaviour.scope else record_id
    is_number = isinstance(behaviour.id_schema, dict) and behaviour.id_schema.get("type") == "integer"
    return int(own) if is_number and own.removeprefix("-").isdecimal() and own.isascii() else own


def order(behaviour: Behaviour) -> Callable[[str], Any]:
    """Sort key of records: numbers by size, other ids as text."""
    by_size = isinstance(behaviour.id_schema, dict) and behaviour.id_schema.get("type") == "integer"
    return (lambda record_id: (len(record_id), record_id)) if by_size else str


def new_id(behaviour: Behaviour, record: Json, arguments: Mapping[str, Json], taken: Container[str]) -> str | None:
    """A free key for a new record; None where no id that its schema allows is left."""
    for attempt in range(TRIES):
        own = _drawn(str(behaviour.entity), behaviour.id_schema, record, attempt)
        if own is None:
            continue
        record_id = named(behaviour, own, arguments)
        if record_id not in taken:
            return record_id
    return None


def named(behaviour: Behaviour, own: str, arguments: Mapping[str, Json]) -> str:
    """The key of a new record that is called ``own``: after its prefix, within its scope."""
    prefix = behaviour.prefix or ""
    for name, value in arguments.items():
        prefix = prefix.replace(f"{{{name}}}", as_id(value))
    return scoped(prefix + own, behaviour.scope, arguments)


def _drawn(entity: str, schema: dict[str, Any] | None, record: Json, attempt: int) -> str | None:
    # Beyond 100 tries the space of 4 digits is all but full, and longer numbers are drawn.
    digits = 4 + attempt // 100
    seed = derive_seed("record", entity, record, attempt)
    letters = "".join(letter for letter in entity.upper() if letter.isalpha())[:2]
    lettered = f"{letters}{seed % 10**digits:0{digits}d}"
    if schema is None:
        return lettered
    number = 10 ** (digits - 1) + seed % (9 * 10 ** (digits - 1))
    compiled = validation.validator(schema)
    styles: list[Json] = [number] if schema.get("type") == "integer" else [lettered.lower(), lettered, str(number)]
    if schema.get("format") == "uuid":
        styles = [words.uuid(random.Random(seed))]
    for style in styles:
        if validation.fault(compiled, style, "id") is None:
            return as_id(style)
    value = SchemaBackend().fill(Request(schema, ["id", entity, seed], {}, None, 0))
    return as_id(value) or None if validation.fault(compiled, value, "id") is None else None


def _escaped(part: str) -> str:
    return part.replace("%", "%25").replace("/", "%2F")
