"""Which arguments of a call are fields of the record that it writes.

Names are compared without case and signs where there is no closer match: a request's ``FriendlyName`` is the record's
``friendly_name``.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from slca.records import Json
from slca.sgls import shapes
from slca.sgls.inference import names
from slca.sgls.tool import Route, Tool


@dataclass(frozen=True)
class Writes:
    """What of a call is written. fields, record and defaults: as in ``Behaviour``. key: the argument that may name the record."""

    fields: dict[str, str] = field(default_factory=dict)
    record: str | None = None
    defaults: dict[str, Json] = field(default_factory=dict)
    key: str | None = None
    names: frozenset[str] = frozenset()


def writes(
    tool: Tool, route: Route, entity: str, id_field: str, properties: Collection[str], parents: Collection[str]
) -> Writes | None:
    """entity: one of the collection's last word; properties: of the records that are shown; parents: fields that the path sets.

    None for a body that is no record.
    """
    whole = [name for name, place in route.arguments.items() if place.part == "body"]
    shown = _shown_names(properties)
    fields = {name: shown(place.name) for name, place in route.arguments.items() if place.part == "field"}
    if len(set(fields.values())) < len(fields):  # one spelling each
        fields = {name: place.name for name, place in route.arguments.items() if place.part == "field"}
    # {"pet": {...}}: a property that wraps the record.
    known = {names.norm(entity), *(names.WRAPPERS if len(fields) == 1 else ())}
    for name, wrapper in fields.items():
        inner = shapes.flat(tool.properties[name], tool.parameters)
        if wrapper not in properties and names.norm(wrapper) in known and shapes.is_object(inner) and not whole:
            whole = [name]
    if whole:
        shape = shapes.flat(tool.properties[whole[0]], tool.parameters)
        if shapes.types(shape) and not shapes.is_object(shape):
            return None
        declared = shapes.properties(shape)
        key = whole[0] if id_field in declared else None
        return Writes(record=whole[0], key=key, defaults=_defaults(declared, tool, parents), names=frozenset(declared))
    key = next((name for name, field_name in fields.items() if _is_id(field_name, id_field, entity)), None)
    if not fields and route.method != "GET":
        fields = {
            name: place.name for name, place in route.arguments.items() if place.part == "query" and place.name in properties
        }
    schemas = {field_name: tool.properties[name] for name, field_name in fields.items()}
    fields = {name: field_name for name, field_name in fields.items() if name != key and field_name not in parents}
    defaults = {name: value for name, value in _defaults(schemas, tool, parents).items() if name in fields.values()}
    return Writes(fields, None, defaults, key, frozenset(schemas))


def _shown_names(properties: Collection[str]) -> Callable[[str], str]:
    """What the record calls a field that a request calls by a given name."""
    alike: dict[str, list[str]] = {}
    for name in properties:
        alike.setdefault(names.norm(name), []).append(name)

    def shown(name: str) -> str:
        found = alike.get(names.norm(name), [])
        return found[0] if len(found) == 1 and name not in properties else name

    return shown


def _is_id(name: str, id_field: str, entity: str) -> bool:
    return name == id_field or (names.norm(id_field) == "id" and names.norm(name) == f"{names.norm(entity)}id")


def _defaults(declared: dict[str, Any], tool: Tool, parents: Collection[str]) -> dict[str, Json]:
    """What the request's schema says of fields that are not given; null is how many generators write that there is nothing."""
    found = {}
    for name, schema in declared.items():
        value = shapes.flat(schema, tool.parameters).get("default")
        if value is not None and name not in parents:
            found[name] = value
    return found
