"""From an HTTP request to a tool's arguments, as the tool's ``Route`` places and spells them.

Text (in path, query, header, cookie and forms) takes the JSON type that the argument's schema wants; text that does not spell it
stays text, and the schema refuses it. Beside the spellings that ``Place.style`` names, an object in a query or form may stand as
JSON text or, without a style, as one parameter for each of its properties.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request

from slca.records import Json
from slca.sgls.server.bodies import EMPTY, Form, pairs
from slca.sgls.server.jsons import NotJson, decoded
from slca.sgls.server.table import Values
from slca.sgls.tool import Place, Tool

Read = Callable[[list[str]], Json]
"""The value that one or several texts spell."""

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_SIGNS = {"comma": ",", "space": " ", "pipe": "|"}
_DEEP = 16
"""References and alternatives followed into a schema, and levels of JSON text; what lies deeper stays text."""


@dataclass(frozen=True)
class _Placed:
    """One argument: its name, its key in the request, how its texts are read; members: key in a query or form -> the same of an
    object's properties that stand apart."""

    name: str
    key: str
    read: Read
    members: Mapping[str, tuple[str, Read]]


class Gatherer:
    """Gathers the arguments of a tool that has a route."""

    def __init__(self, tool: Tool) -> None:
        places = tool.route.arguments if tool.route else {}
        self._parts = {
            part: [_placed(tool, name, place, places) for name, place in places.items() if place.part == part]
            for part in ("path", "query", "header", "cookie", "field")
        }
        self._fields = {placed.key: placed.name for placed in self._parts["field"]}
        self._form_keys = self._fields.keys() | {key for placed in self._parts["field"] for key in placed.members}
        self._whole = next((name for name, place in places.items() if place.part == "body"), None)
        self._names = frozenset(places)
        self.has_body = self._whole is not None or bool(self._fields)

    def gather(self, request: Request, values: Values, body: Json | Form) -> Json:
        """The arguments; no object where the body should hold fields and is none. Raises Refused (400) for a broken query."""
        arguments: dict[str, Json] = {placed.name: placed.read([values[placed.key]]) for placed in self._parts["path"]}
        if self._parts["query"] and request.scope["query_string"]:
            arguments |= _from_form(self._parts["query"], pairs(request.scope["query_string"], "query"))
        if self._parts["header"]:
            arguments |= _from_mapping(self._parts["header"], request.headers)
        if self._parts["cookie"]:
            arguments |= _from_mapping(self._parts["cookie"], request.cookies)
        if body is EMPTY or not self.has_body:
            return arguments
        if self._whole is not None:
            return {**arguments, self._whole: dict(body.fields) if isinstance(body, Form) else body}
        if isinstance(body, Form):
            unknown = {self._unknown(key): text for key, text in body.fields if key not in self._form_keys}
            return arguments | _from_form(self._parts["field"], body) | unknown
        if not isinstance(body, dict):
            return body
        return arguments | {self._fields.get(key) or self._unknown(key): value for key, value in body.items()}

    def _unknown(self, key: str) -> str:
        """The name of a field that the route does not know: the schema is to judge it, and it is no argument of another place."""
        return f"body.{key}" if key in self._names else key


def _from_mapping(parts: list[_Placed], source: Mapping[str, str]) -> dict[str, Json]:
    return {placed.name: placed.read([source[placed.key]]) for placed in parts if placed.key in source}


def _from_form(parts: list[_Placed], form: Form) -> dict[str, Json]:
    texts = form.by_name()
    arguments: dict[str, Json] = {}
    for placed in parts:
        if placed.key in texts:
            arguments[placed.name] = placed.read(texts[placed.key])
        elif members := {name: read(texts[key]) for key, (name, read) in placed.members.items() if key in texts}:
            arguments[placed.name] = members
    return arguments


def _placed(tool: Tool, name: str, place: Place, places: Mapping[str, Place]) -> _Placed:
    root = tool.parameters
    schemas = list(_plain(tool.properties.get(name), root))
    members = {}
    if place.part in ("query", "field") and place.style in ("", "deep"):
        taken = {other.name for other in places.values()}
        for member, schema in ((key, value) for found in schemas for key, value in found.get("properties", {}).items()):
            key = f"{place.name}[{member}]" if place.style == "deep" else member
            if key not in taken:
                members[key] = (member, _reader(list(_plain(schema, root)), root, place))
    return _Placed(name, place.name, _reader(schemas, root, place), members)


def _reader(schemas: list[dict[str, Any]], root: Mapping[str, Any], place: Place) -> Read:
    types = _types(schemas)
    if place.style == "json":
        return lambda texts: _json(texts[-1])
    if "array" not in types:
        return lambda texts: _scalar(texts[-1], types)
    items = _types([inner for schema in schemas for inner in _plain(schema.get("items"), root)])
    sign = _SIGNS.get(place.style, "" if place.part in ("query", "field") else ",")

    def read(texts: list[str]) -> Json:
        if len(texts) == 1 and sign:
            texts = texts[0].split(sign)
        return [_scalar(text, items) for text in texts]

    return read


def _scalar(text: str, types: frozenset[str]) -> Json:
    if types & {"integer", "number"} and _NUMBER.fullmatch(text):
        return _json(text)
    if "boolean" in types and text in ("true", "false"):
        return text == "true"
    if "null" in types and "string" not in types and text in ("", "null"):
        return None
    if "object" in types and text.startswith("{"):
        return _json(text)
    return text


def _json(text: str) -> Json:
    try:
        return decoded(text.encode(), _DEEP)
    except NotJson:
        return text


def _types(schemas: list[dict[str, Any]]) -> frozenset[str]:
    """The JSON types that the schemas speak of."""
    types: set[str] = set()
    for schema in schemas:
        kind = schema.get("type")
        types.update([kind] if isinstance(kind, str) else kind or ())
    return frozenset(types)


def _plain(schema: Json, root: Mapping[str, Any], deep: int = _DEEP) -> Iterator[dict[str, Any]]:
    """The schema and those that it refers to or is put together from."""
    if not isinstance(schema, dict) or deep == 0:
        return
    yield schema
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        yield from _plain(_target(reference, root), root, deep - 1)
    for keyword in ("allOf", "anyOf", "oneOf"):
        for inner in schema.get(keyword, ()):
            yield from _plain(inner, root, deep - 1)


def _target(reference: str, root: Mapping[str, Any]) -> Json:
    value: Json = root
    for part in unquote(reference[1:]).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
