"""Tools from Google API Discovery documents: one for each method, on whatever level of resources it stands.

``Route.path`` is the method's ``path`` without the service's base path. A ``{+name}`` in it takes several segments; its pattern
is written into the path as google.api.http has it, so that two methods of the same path can be told apart: ``^projects/[^/]+$``
makes ``v1/{+name}`` into ``/v1/{name=projects/*}``.

Parameters of all methods (``alt``, ``key``, ``prettyPrint``, ...) steer the transport and are left out; media uploads and
downloads become notes. A field that names this method under ``annotations.required`` is required.
"""

import re
from collections.abc import Iterator

from slca.errors import DataError
from slca.records import Json
from slca.sgls.importers.base import Imported, Refused
from slca.sgls.importers.dialects import discovery
from slca.sgls.importers.document import Document, Fault, plain_json, pointer
from slca.sgls.importers.names import tool_names
from slca.sgls.importers.rest import (
    METHODS,
    Body,
    Operation,
    Parameter,
    checked_path,
    described,
    path_names,
    reason,
    tool_of,
    with_path,
)
from slca.sgls.importers.schemas import Schemas
from slca.sgls.tool import Place, Tool


def from_discovery(document: Json, source: str) -> Imported:
    """The tools of a parsed Discovery document. Raises DataError, which names ``source``, where it is none at all."""
    root = plain_json(document, source)
    if not isinstance(root, dict) or "discoveryVersion" not in root or not root.keys() & {"resources", "methods"}:
        raise DataError(f"{source} is no Discovery document: it needs discoveryVersion, and resources or methods.")
    schemas = Schemas(Document(root), discovery)
    tools: list[Tool] = []
    refused: list[Refused] = []
    notes: list[Refused] = []
    if root.get("parameters"):
        notes.append(Refused("#/parameters", "parameters", "parameters of all methods steer the transport and are left out"))
    found: list[tuple[str, str, dict[str, Json]]] = []
    for place, name, method in _methods(root, ()):
        if isinstance(method, dict):
            found.append((place, _original(method, name), method))
        else:
            refused.append(Refused(place, name, "a method must be an object"))
    for (place, original, method), name in zip(found, tool_names([one[1] for one in found]), strict=True):
        for flag, meaning in (("supportsMediaUpload", "media upload"), ("supportsMediaDownload", "media download")):
            if method.get(flag) is True:
                notes.append(Refused(f"{place}/{flag}", name, f"{meaning} is not imported; the tool carries JSON only"))
        try:
            tools.append(tool_of(_read(method, place, name, original, schemas, root), schemas, source))
        except Fault as fault:
            refused.append(Refused(place, original, reason(fault, place)))
    return Imported(tuple(tools), tuple(refused), (*notes, *schemas.notes))


def _methods(resource: dict[str, Json], path: tuple[str, ...]) -> Iterator[tuple[str, str, Json]]:
    """Place, dotted name and content of each method of a resource and of the resources inside it."""
    methods, resources = resource.get("methods"), resource.get("resources")
    if isinstance(methods, dict):
        for name, method in methods.items():
            yield pointer(*path, "methods", name), ".".join((*path[1::2], name)), method
    if isinstance(resources, dict):
        for name, inner in resources.items():
            if isinstance(inner, dict):
                yield from _methods(inner, (*path, "resources", name))


def _original(method: dict[str, Json], name: str) -> str:
    given = method.get("id")
    return given if isinstance(given, str) and given.strip() else name


def _read(method: dict[str, Json], place: str, name: str, original: str, schemas: Schemas, root: dict[str, Json]) -> Operation:
    verb, path = method.get("httpMethod"), method.get("path")
    if not isinstance(verb, str) or verb not in METHODS:
        raise Fault(f"{place}/httpMethod", f"httpMethod must be one of {', '.join(METHODS)}")
    if not isinstance(path, str):
        raise Fault(f"{place}/path", "path must be a text")
    declared = method.get("parameters", {})
    if not isinstance(declared, dict):
        raise Fault(f"{place}/parameters", "parameters must be an object")
    parameters = tuple(
        _parameter(content, key, f"{place}/{pointer('parameters', key)[2:]}", schemas) for key, content in declared.items()
    )
    template = checked_path(_with_patterns(path, declared), place)
    status = 200
    output: Json = {"type": "null"}
    if "response" in method:
        output = schemas.convert(method["response"], f"{place}/response", "answer")
    elif method.get("supportsMediaDownload") is True:
        output = {"type": "string"}
    else:
        status = 204
    body = None
    if "request" in method:
        schema = schemas.convert(method["request"], f"{place}/request", "request")
        body = Body(schema, "application/json", False, _needed(method["request"], original, root))
    deprecated = "Deprecated." if method.get("deprecated") is True else None
    return Operation(
        place=place,
        name=name,
        original=original,
        method=METHODS[verb],
        path=template,
        description=described(f"{verb} {path}", deprecated, method.get("description")),
        parameters=with_path(parameters, path_names(template)),
        body=body,
        output=output,
        status=status,
    )


def _parameter(content: Json, name: str, place: str, schemas: Schemas) -> Parameter:
    if not isinstance(content, dict):
        raise Fault(place, "a parameter must be an object")
    part = content.get("location")
    if part not in ("path", "query"):
        raise Fault(f"{place}/location", f"location must be path or query, not {part!r:.40}")
    return Parameter(Place(part=part, name=name), schemas.convert(content, place, "request"), content.get("required") is True)


def _needed(request: Json, method: str, root: dict[str, Json]) -> tuple[str, ...]:
    """Fields of the request that this method requires: Discovery says so in the annotations of each field."""
    schemas = root.get("schemas")
    name = request.get("$ref") if isinstance(request, dict) else None
    schema = schemas.get(name) if isinstance(schemas, dict) and isinstance(name, str) else None
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return ()
    needed = []
    for key, value in properties.items():
        annotations = value.get("annotations") if isinstance(value, dict) else None
        methods = annotations.get("required") if isinstance(annotations, dict) else None
        if isinstance(methods, list) and method in methods:
            needed.append(key)
    return tuple(needed)


def _with_patterns(path: str, parameters: dict[str, Json]) -> str:
    """``path`` with ``{name=projects/*}`` for each ``{+name}``."""

    def template(match: re.Match[str]) -> str:
        content = parameters.get(match[1])
        pattern = content.get("pattern") if isinstance(content, dict) else None
        return f"{{{match[1]}={_segments(pattern) if isinstance(pattern, str) else '**'}}}"

    return re.sub(r"[{][+]([^{}]*)[}]", template, path)


def _segments(pattern: str) -> str:
    """The path template of a pattern that is literals and ``[^/]+``, perhaps with ``.*`` at its end; ``**`` for any other."""
    segments = pattern.removeprefix("^").removesuffix("$").replace("[^/]+", "*").split("/")
    if segments[-1] == ".*":
        segments[-1] = "**"
    inner = all(re.fullmatch(r"[*]|[A-Za-z0-9_-]+", segment) for segment in segments[:-1])
    return "/".join(segments) if inner and re.fullmatch(r"[*]{1,2}|[A-Za-z0-9_-]+", segments[-1]) else "**"
