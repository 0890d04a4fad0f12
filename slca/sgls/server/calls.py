"""The endpoints that call a tool: the service's own routes, and ``POST /tools/{name}`` for every tool."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from slca.records import CallError, Json
from slca.sgls.faults import EMPTY_PAGE
from slca.sgls.server import bodies
from slca.sgls.server.arguments import Gatherer
from slca.sgls.server.options import DEFAULT_SESSION, FAULT_HEADER, SESSION_HEADER, Limits
from slca.sgls.server.refusals import STATUS, Refused, json_response
from slca.sgls.server.sessions import Sessions
from slca.sgls.server.table import Endpoint, Values
from slca.sgls.simulator import Answer
from slca.sgls.tool import Tool

NO_BODY = (204, 205, 304)
"""Statuses of answers without a body."""


def route_endpoint(tool: Tool, sessions: Sessions, limits: Limits) -> Endpoint:
    """Answers the tool's own route."""
    route = tool.route
    assert route is not None
    gatherer = Gatherer(tool)

    async def endpoint(request: Request, values: Values) -> ASGIApp:
        body = bodies.EMPTY
        if gatherer.has_body:
            body = await bodies.parsed(request, await bodies.read(request, limits), route.media_type, limits)
        arguments = gatherer.gather(request, values, body)
        return await _answered(request, sessions, tool.name, arguments, route.status)

    return endpoint


def tool_endpoint(sessions: Sessions, limits: Limits) -> Endpoint:
    """Answers ``POST /tools/{name}``: the body is the arguments' object, the answer the result."""

    async def endpoint(request: Request, values: Values) -> ASGIApp:
        arguments = bodies.json_value(await bodies.read(request, limits) or b"{}", limits)
        return await _answered(request, sessions, values["name"], arguments, 200)

    return endpoint


async def _answered(request: Request, sessions: Sessions, name: str, arguments: Json, status: int) -> ASGIApp:
    """The response to a call. Raises Refused for one that ended in an error. An injected fault is labelled in a header."""
    answer = await sessions.call(request.headers.get(SESSION_HEADER, DEFAULT_SESSION), name, arguments)
    attempt, fault = answer.attempt, answer.fault
    headers = {} if fault is None else {FAULT_HEADER: fault.kind}
    if attempt.error is None or succeeded(answer):
        return Response(None, status, headers) if status in NO_BODY else json_response(attempt.result, status, headers)
    if fault is not None and fault.retry_after:
        headers["Retry-After"] = str(fault.retry_after)
    told = attempt.result["error"]
    code = fault.status if fault is not None and attempt.error is CallError.FAULT else STATUS[attempt.error]
    raise Refused(code, told["type"], told["message"], headers)


def succeeded(answer: Answer) -> bool:
    """Whether a client reads a result: an empty page is one, although a fault."""
    return answer.attempt.error is None or (answer.fault is not None and answer.fault.kind == EMPTY_PAGE)
