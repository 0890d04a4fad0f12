"""The ASGI application: every path of the server in one table."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from slca.errors import SlcaError, ToolError
from slca.sgls.server.calls import route_endpoint, tool_endpoint
from slca.sgls.server.control import add_control
from slca.sgls.server.gate import Gate
from slca.sgls.server.jsons import encoded
from slca.sgls.server.mcp import McpEndpoint
from slca.sgls.server.openapi import document
from slca.sgls.server.options import CONTROL, Limits, Service
from slca.sgls.server.refusals import Refused
from slca.sgls.server.sessions import Sessions
from slca.sgls.server.table import Endpoint, Table, Values, parameters_of


def app(service: Service, limits: Limits | None = None, host: str = "127.0.0.1") -> Starlette:
    """The application that serves ``service``. host: where it will be bound.

    Raises ToolError for a route that cannot be and for duplicated names, SlcaError for a base path that is none, and what
    building the backend raises.
    """
    limits = limits or Limits()
    sessions = Sessions(service, limits)
    table = Table()
    _add_routes(table, service, sessions, limits)
    add_control(table, sessions, limits)
    mcp = McpEndpoint(service, sessions, limits, host)
    ours: list[tuple[str, str, Endpoint]] = [
        ("GET", "/tools", _fixed({"tools": [tool.to_json() for tool in service.tools]})),
        ("POST", "/tools/{name}", tool_endpoint(sessions, limits)),
        ("GET", "/openapi.json", _fixed(document(service))),
        *((method, "/mcp", mcp.endpoint) for method in ("GET", "POST", "DELETE")),
    ]
    for method, path, endpoint in ours:
        table.add(method, CONTROL + path, endpoint)
        table.add(method, path, endpoint)  # where the service has the same, its own was added before and wins

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with mcp.running():
            yield

    return Starlette(
        routes=[table],
        middleware=[Middleware(Gate, limits=limits)],
        exception_handlers={Exception: _defect},
        lifespan=lifespan,
    )


def _add_routes(table: Table, service: Service, sessions: Sessions, limits: Limits) -> None:
    if not re.fullmatch(r"(/[^/?#{}]+)*", service.base_path):
        raise SlcaError(f"The base path must be like /v1, or empty, not {service.base_path!r}.")
    for tool in service.tools:
        if tool.route is not None:
            path = service.base_path + tool.route.path
            if f"{path}/".startswith(f"{CONTROL}/"):
                raise ToolError(f"tool {tool.name!r}: the path {path!r} is the simulator's own; give the service a base path.")
            missing = {place.name for place in tool.route.arguments.values() if place.part == "path"} - set(parameters_of(path))
            if missing:
                raise ToolError(f"tool {tool.name!r}: its path {path!r} lacks {{{min(missing)}}}; mend its route.")
            table.add(tool.route.method, path, route_endpoint(tool, sessions, limits))


def _fixed(value: object) -> Endpoint:
    """An endpoint that always answers the same."""
    body = encoded(value)

    async def endpoint(request: Request, values: Values) -> ASGIApp:
        return Response(body, media_type="application/json")

    return endpoint


async def _defect(request: Request, error: Exception) -> Response:
    """A defect of this package: the client reads a typed error, the log its traceback."""
    return Refused(500, "internal_error", "the simulator failed; its log says where.").response()
