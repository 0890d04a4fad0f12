"""The control paths under ``/_slca``: sessions are listed, looked into, reset, forked and ended."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from slca.records import Json
from slca.sgls.server import bodies
from slca.sgls.server.options import CONTROL, Limits
from slca.sgls.server.refusals import Refused, json_response
from slca.sgls.server.sessions import Sessions
from slca.sgls.server.table import Table, Values


def add_control(table: Table, sessions: Sessions, limits: Limits) -> None:
    async def listed(request: Request, values: Values) -> ASGIApp:
        return json_response({"sessions": sessions.ids()})

    async def shown(request: Request, values: Values) -> ASGIApp:
        return json_response({**await sessions.summary(values["id"]), "state": await sessions.state(values["id"])})

    async def reset(request: Request, values: Values) -> ASGIApp:
        await sessions.reset(values["id"])
        return json_response(await sessions.summary(values["id"]))

    async def forked(request: Request, values: Values) -> ASGIApp:
        wanted = bodies.json_value(await bodies.read(request, limits) or b"{}", limits)
        new_id = await sessions.fork(values["id"], _new_id(wanted))
        return json_response(await sessions.summary(new_id), 201)

    async def ended(request: Request, values: Values) -> ASGIApp:
        sessions.end(values["id"])
        return Response(status_code=204)

    table.add("GET", f"{CONTROL}/sessions", listed)
    table.add("GET", f"{CONTROL}/sessions/{{id}}", shown)
    table.add("DELETE", f"{CONTROL}/sessions/{{id}}", ended)
    table.add("POST", f"{CONTROL}/sessions/{{id}}/reset", reset)
    table.add("POST", f"{CONTROL}/sessions/{{id}}/fork", forked)


def _new_id(wanted: Json) -> str | None:
    if not isinstance(wanted, dict) or not wanted.keys() <= {"id"} or not isinstance(wanted.get("id", ""), str):
        raise Refused(422, "invalid_arguments", 'the body must be an object such as {"id": "NEW"}, or empty.')
    return wanted.get("id")
