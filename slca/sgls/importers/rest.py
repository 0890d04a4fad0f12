"""One HTTP operation as a tool, whatever kind of document described it.

Each parameter is one argument. A body that is an object with declared properties is taken apart, one argument per property; any
other body (a choice, a list, a map, one whose property would collide with a parameter) is one argument, ``body``.

Departure from the documents: an optional body with required properties counts as required, since authors leave ``required: true``
out far more often than servers do without the body.
"""

import re
from dataclasses import dataclass, replace
from typing import Any, get_args

from slca.records import Json
from slca.sgls.importers.document import Fault
from slca.sgls.importers.names import argument_name, argument_names
from slca.sgls.importers.schemas import Schemas, shortened
from slca.sgls.tool import Method, Place, Route, Tool

METHODS: dict[str, Method] = {name: name for name in get_args(Method)}
"""Spelled as routes have them."""

LONGEST_DESCRIPTION = 1024
"""Characters of a tool's description; a longer one is cut at its end, visibly."""

_OF_AN_OBJECT = {"type", "properties", "required", "additionalProperties", "allOf", "$ref"}
_OF_NO_WEIGHT = {"title", "description", "examples", "default", "deprecated", "readOnly", "writeOnly"}


@dataclass(frozen=True)
class Parameter:
    """One parameter outside the body. schema: converted."""

    place: Place
    schema: Json
    required: bool


@dataclass(frozen=True)
class Body:
    """A request's body. schema: converted. needed: properties that are required beside those that the schema names."""

    schema: Json
    media_type: str
    required: bool
    needed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Operation:
    """What a document says of one operation. name: safe; original: as the document spells it; output: converted."""

    place: str
    name: str
    original: str
    method: Method
    path: str
    description: str
    parameters: tuple[Parameter, ...]
    body: Body | None
    output: Json
    status: int


def described(route: str, *texts: Json) -> str:
    """The texts that are there, each a paragraph, without one that begins another, cut to ``LONGEST_DESCRIPTION``.

    Where no text says anything, ``route`` is all there is to say (``GET /pets``).
    """
    parts = list(dict.fromkeys(" ".join(text.split()) for text in texts if isinstance(text, str)))
    kept = [part for part in parts if part and not any(other.startswith(part) for other in parts if other != part)]
    return shortened("\n\n".join(kept) or route, LONGEST_DESCRIPTION)


def tool_of(operation: Operation, schemas: Schemas, source: str) -> Tool:
    """The tool that stands for ``operation``. Raises Fault."""
    parameters = list(operation.parameters)
    body = operation.body
    if body is not None:
        parameters += _fields(body, parameters, schemas) or [_whole(body)]
    names = argument_names([(parameter.place.name or "body", parameter.place.part) for parameter in parameters])
    arguments: dict[str, Any] = {
        "type": "object",
        "properties": {name: parameter.schema for name, parameter in zip(names, parameters, strict=True)},
        "required": [name for name, parameter in zip(names, parameters, strict=True) if parameter.required],
        "additionalProperties": False,
    }
    output = schemas.opened(operation.output, "answer")
    return Tool(
        name=operation.name,
        description=operation.description,
        parameters=schemas.closed(arguments, "request"),
        output=schemas.closed(output if isinstance(output, dict) else {} if output else {"not": {}}, "answer"),
        domain=source,
        source=source,
        original="" if operation.original == operation.name else operation.original,
        route=Route(
            method=operation.method,
            path=operation.path,
            arguments={name: parameter.place for name, parameter in zip(names, parameters, strict=True)},
            media_type=body.media_type if body is not None else "application/json",
            status=operation.status,
        ),
    )


def _whole(body: Body) -> Parameter:
    return Parameter(Place(part="body", name=""), body.schema, body.required)


def _fields(body: Body, others: list[Parameter], schemas: Schemas) -> list[Parameter]:
    """The body's properties as parameters; none where the body has to stay in one piece."""
    found = _object(body.schema, schemas, 0)
    if found is None or not found[0]:
        return []
    properties, required = found
    taken = {argument_name(parameter.place.name) for parameter in others}
    names = [argument_name(name) for name in properties]
    if taken & set(names) or len(set(names)) < len(names):
        return []
    needed = {*required, *body.needed}
    return [Parameter(Place(part="field", name=name), schema, name in needed) for name, schema in properties.items()]


def _object(schema: Json, schemas: Schemas, depth: int) -> tuple[dict[str, Json], tuple[str, ...]] | None:
    """Properties and required names of a schema that is an object and no more; those of ``allOf`` joined. None for others."""
    if not isinstance(schema, dict) or not schema.keys() <= _OF_AN_OBJECT | _OF_NO_WEIGHT or depth > 8:
        return None
    more = schema.get("additionalProperties")
    if schema.get("type", "object") != "object" or (isinstance(more, dict) and more):
        return None
    properties: dict[str, Json] = dict(schema.get("properties", {}))
    required: tuple[str, ...] = tuple(schema.get("required", ()))
    parts = list(schema.get("allOf", ()))
    if "$ref" in schema:
        parts.append(schemas.opened({"$ref": schema["$ref"]}, "request"))
    for part in parts:
        inner = _object(part, schemas, depth + 1)
        if inner is None:
            return None
        for name, declared in inner[0].items():
            known = properties.setdefault(name, declared)
            if known != declared:
                properties[name] = {"allOf": [known, declared]}
        required += inner[1]
    return properties, required


def path_names(path: str) -> list[str]:
    """The names in a path's braces: ``id`` of ``{id}``, ``name`` of ``{name=projects/*}``."""
    return re.findall(r"[{]([^{}=]+)(?:=[^{}]*)?[}]", path)


def with_path(parameters: tuple[Parameter, ...], names: list[str]) -> tuple[Parameter, ...]:
    """``parameters`` with one path parameter for each name in the path, in its order, and no other path parameters.

    A name that no parameter declares is a string.
    """
    declared = {parameter.place.name: parameter for parameter in parameters if parameter.place.part == "path"}
    path = [
        replace(declared[name], required=True)
        if name in declared
        else Parameter(Place(part="path", name=name), {"type": "string", "minLength": 1}, True)
        for name in dict.fromkeys(names)
    ]
    return (*path, *(parameter for parameter in parameters if parameter.place.part != "path"))


def checked_path(path: str, place: str) -> str:
    """``path`` with its leading slash. Raises Fault where its braces do not pair up."""
    if path.count("{") != path.count("}") or len(path) > 2000:
        raise Fault(place, "the path's braces do not pair up, or it is longer than 2000 characters")
    return path if path.startswith("/") else f"/{path}"


def reason(fault: Fault, place: str) -> str:
    """Why the operation at ``place`` is refused, with the place of the fault where that is another one."""
    return fault.reason if fault.place == place else f"at {fault.place}: {fault.reason}"
