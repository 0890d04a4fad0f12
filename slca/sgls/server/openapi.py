"""The server's own OpenAPI 3.1 document: the service's routes as they are served here, every tool by name, and the control paths.

It states what this server does: its strictness about fields, its errors in one shape. Departures from the imported document: a
parameter that spans several segments becomes one for each of its wildcards, since OpenAPI's stand within a segment. The MCP
endpoint is not in it: MCP describes itself.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from slca.records import Json
from slca.sgls.server.calls import NO_BODY
from slca.sgls.server.options import CONTROL, FAULT_HEADER, SESSION_HEADER, Service
from slca.sgls.server.refs import relocated
from slca.sgls.server.sessions import ID_PATTERN
from slca.sgls.server.table import PARAMETER
from slca.sgls.simulator import DEFAULT_OUTPUT
from slca.sgls.tool import Place, Route, Tool

_DESCRIPTION = (
    f"A simulated double. Its state belongs to a session: the header `{SESSION_HEADER}` names it (absent: `default`), the paths "
    f"below `{CONTROL}/sessions` reset, fork, show and end it. The header `{FAULT_HEADER}` labels an injected fault. "
    "The same tools are served over MCP at `/mcp`."
)

_REFUSALS = {
    400: "The request cannot be read.",
    404: "There is no such record, tool, session or path.",
    408: "The request arrived too slowly.",
    409: "The state does not allow this.",
    413: "The body is too large.",
    414: "Path and query are too long.",
    415: "The body is of a type that is not understood.",
    422: "The arguments do not satisfy their schema.",
    429: "Too many requests or sessions, or an injected rate limit.",
    500: "An injected server error.",
    502: "No valid answer could be made, or an injected server error.",
    503: "Too many connections, or an injected server error.",
    504: "An injected time-out.",
}
_ERROR: Json = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {"type": {"type": "string"}, "message": {"type": "string"}},
            "required": ["type", "message"],
        }
    },
    "required": ["error"],
}
_ID: Json = {"type": "string", "pattern": ID_PATTERN}
_COUNTS: Json = {"type": "object", "additionalProperties": {"type": "integer"}}
_SESSION: Json = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "failed": {"type": "boolean"},
        "calls": {"type": "integer"},
        "errors": _COUNTS,
        "faults": _COUNTS,
    },
    "required": ["id", "failed", "calls", "errors", "faults"],
}
_STYLES: dict[str, dict[str, Json]] = {
    "comma": {"explode": False},
    "space": {"style": "spaceDelimited", "explode": False},
    "pipe": {"style": "pipeDelimited", "explode": False},
    "deep": {"style": "deepObject", "explode": True},
}


def document(service: Service) -> dict[str, Any]:
    """The document as JSON."""
    schemas: dict[str, Json] = {"Error": _ERROR, "Session": _SESSION}
    paths: dict[str, dict[str, Json]] = {}
    for tool in service.tools:
        schemas[_name(tool, "arguments")] = _moved(tool.parameters, _place(tool, "arguments"))
        schemas[_name(tool, "result")] = _moved(_output(tool), _place(tool, "result"))
        if tool.route is not None:
            path, wildcards = _template(service.base_path + tool.route.path)
            paths.setdefault(path, {}).setdefault(tool.route.method.lower(), _route_operation(tool, tool.route, wildcards))
    prefix = CONTROL if any(f"{path}/".startswith("/tools/") for path in paths) else ""
    paths[f"{prefix}/tools"] = {"get": _operation("slca.tools", "List the tools.", {200: {"type": "object"}})}
    for tool in service.tools:
        paths[f"{prefix}/tools/{tool.name}"] = {"post": _tool_operation(tool)}
    paths |= _control_paths()
    responses = {f"refused_{status}": _refused(status, text) for status, text in _REFUSALS.items()}
    return {
        "openapi": "3.1.0",
        "info": {"title": service.title, "version": "1.0.0", "description": _DESCRIPTION},
        "paths": paths,
        "components": {"schemas": schemas, "responses": responses},
    }


def _name(tool: Tool, what: str) -> str:
    return f"{tool.name}.{what}"


def _place(tool: Tool, what: str) -> str:
    return f"#/components/schemas/{_name(tool, what)}"


def _moved(schema: Mapping[str, Json], place: str) -> Json:
    return relocated({key: value for key, value in schema.items() if key not in ("$schema", "$id")}, place)


def _output(tool: Tool) -> Mapping[str, Json]:
    if tool.output is not None:
        return tool.output
    return DEFAULT_OUTPUT if tool.behaviour is None else {"type": "object"}


def _template(path: str) -> tuple[str, list[str]]:
    """The path as OpenAPI writes it, and the names that stand for a part of a parameter only."""
    wildcards: list[str] = []

    def written(found: Any) -> str:
        name, shape = found[1], found[2]
        if shape is None:
            return f"{{{name}}}"
        parts = []
        for part in shape.split("/"):
            if "*" in part:
                wildcards.append(f"{name}.{len(wildcards) + 1}")
                part = f"{{{wildcards[-1]}}}"
            parts.append(part)
        return "/".join(parts)

    return PARAMETER.sub(written, path), wildcards


def _route_operation(tool: Tool, route: Route, wildcards: Iterable[str]) -> Json:
    properties: Mapping[str, Json] = _moved(tool.properties, _place(tool, "arguments"))
    spanning = {name for name, shape in PARAMETER.findall(route.path) if shape}
    parameters: list[Json] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}} for name in wildcards
    ]
    fields: dict[str, Json] = {}
    needed: list[str] = []
    body: Json = None
    for name, place in route.arguments.items():
        schema, required = properties.get(name, {}), name in tool.required
        if place.part == "body":
            body = {"required": required, "content": {route.media_type: {"schema": schema}}}
        elif place.part == "field":
            fields[place.name] = schema
            needed += [place.name] if required else []
        elif not (place.part == "path" and place.name in spanning):
            parameters.append(_parameter(place, schema, required))
    if fields:
        extra = tool.parameters.get("additionalProperties", True)
        whole = {"type": "object", "properties": fields, "required": needed, "additionalProperties": extra}
        body = {"required": bool(needed), "content": {route.media_type: {"schema": whole}}}
    operation = _operation(tool.name, tool.description, {route.status: {"$ref": _place(tool, "result")}}, body)
    return {**operation, "parameters": parameters}


def _parameter(place: Place, schema: Json, required: bool) -> Json:
    parameter: dict[str, Json] = {"name": place.name, "in": place.part, "required": required or place.part == "path"}
    if place.style == "json":
        return {**parameter, "content": {"application/json": {"schema": schema}}}
    return parameter | _STYLES.get(place.style, {}) | {"schema": schema}


def _tool_operation(tool: Tool) -> Json:
    body = {"required": bool(tool.required), "content": {"application/json": {"schema": {"$ref": _place(tool, "arguments")}}}}
    return _operation(f"slca.tools.{tool.name}", tool.description, {200: {"$ref": _place(tool, "result")}}, body)


def _control_paths() -> dict[str, Json]:
    session: Json = {"$ref": "#/components/schemas/Session"}
    listed = {"type": "object", "properties": {"sessions": {"type": "array", "items": _ID}}, "required": ["sessions"]}
    shown = {"allOf": [session, {"type": "object", "properties": {"state": {"type": "object"}}, "required": ["state"]}]}
    wanted = {"type": "object", "properties": {"id": _ID}, "additionalProperties": False}
    new_id = {"required": False, "content": {"application/json": {"schema": wanted}}}
    path = f"{CONTROL}/sessions/{{id}}"
    paths: dict[str, dict[str, Json]] = {
        path: {
            "get": _operation("slca.session", "Counts and state of a session.", {200: shown}),
            "delete": _operation("slca.session.end", "End a session.", {204: {}}),
        },
        f"{path}/reset": {"post": _operation("slca.session.reset", "Back to the first state.", {200: session})},
        f"{path}/fork": {
            "post": _operation("slca.session.fork", "A new session that goes on from here.", {201: session}, new_id)
        },
    }
    for operations in paths.values():
        operations["parameters"] = [{"name": "id", "in": "path", "required": True, "schema": _ID}]
    return {f"{CONTROL}/sessions": {"get": _operation("slca.sessions", "List the sessions.", {200: listed})}, **paths}


def _operation(name: str, description: str, answers: Mapping[int, Json], body: Json = None) -> dict[str, Json]:
    responses: dict[str, Json] = {}
    for status, schema in answers.items():
        content = {} if status in NO_BODY else {"content": {"application/json": {"schema": schema}}}
        responses[str(status)] = {"description": "The call was carried out.", **content}
    responses |= {str(status): {"$ref": f"#/components/responses/refused_{status}"} for status in _REFUSALS}
    operation: dict[str, Json] = {"operationId": name, "description": description, "responses": responses}
    return operation if body is None else {**operation, "requestBody": body}


def _refused(status: int, text: str) -> Json:
    headers: dict[str, Json] = {FAULT_HEADER: {"schema": {"type": "string"}}}
    if status == 429:
        headers["Retry-After"] = {"schema": {"type": "integer"}}
    return {
        "description": text,
        "headers": headers,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
    }
