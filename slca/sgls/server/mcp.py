"""The MCP endpoint (streamable HTTP), with the official library's server: the same tools, sessions and typed errors.

A tool's schemas are given as they are. Where an output is no object, it travels as ``{"result": ...}``, since protocol versions
before 2026-07-28 allow objects only. A typed error has ``isError`` and its JSON as text. The session is the one that the header
names, else one for the MCP session, which ends with it; protocol versions without MCP sessions speak to ``default``.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from slca.records import Json
from slca.sgls.server.calls import succeeded
from slca.sgls.server.jsons import encoded
from slca.sgls.server.options import DEFAULT_SESSION, SESSION_HEADER, Limits, Service
from slca.sgls.server.refs import relocated
from slca.sgls.server.refusals import Refused
from slca.sgls.server.sessions import Sessions
from slca.sgls.server.table import Values
from slca.sgls.tool import Tool

MCP_SESSION_HEADER = "Mcp-Session-Id"
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class McpEndpoint:
    """``endpoint`` goes into the table; ``running`` must surround the server's life. host: where it is bound."""

    def __init__(self, service: Service, sessions: Sessions, limits: Limits, host: str) -> None:
        self._sessions = sessions
        self._wrapped = {tool.name for tool in service.tools if tool.output is not None and tool.output.get("type") != "object"}
        self._listed = types.ListToolsResult(tools=[self._definition(tool) for tool in service.tools])
        server: Server[Any] = Server(
            "slca", version=version("slca"), title=service.title, on_list_tools=self._list, on_call_tool=self._call
        )
        self._manager = StreamableHTTPSessionManager(
            server,
            json_response=True,
            security_settings=_security(host),
            max_request_body_size=limits.body_bytes,
            max_sessions=limits.sessions,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._manager.run():
            yield

    async def endpoint(self, request: Request, values: Values) -> ASGIApp:
        return self._handle

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._manager.handle_request(scope, receive, send)
        if scope["method"] == "DELETE":
            self._sessions.forget(_own_session(Request(scope).headers))

    async def _list(self, context: ServerRequestContext[Any, Any], params: Any) -> types.ListToolsResult:
        return self._listed

    async def _call(self, context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams) -> types.CallToolResult:
        headers: Mapping[str, str] = context.request.headers if context.request is not None else {}
        try:
            answer = await self._sessions.call(_session_id(headers), params.name, params.arguments or {})
        except Refused as refusal:
            return _result(refusal.told, False, None)
        succeeds, result = succeeded(answer), answer.attempt.result
        if succeeds and params.name in self._wrapped:
            result = {"result": result}
        return _result(result, succeeds, answer.fault.kind if answer.fault else None)

    def _definition(self, tool: Tool) -> types.Tool:
        output = tool.output
        if output is not None and tool.name in self._wrapped:
            output = {
                "type": "object",
                "properties": {"result": relocated(output, "#/properties/result")},
                "required": ["result"],
            }
        return types.Tool(name=tool.name, description=tool.description, input_schema=tool.parameters, output_schema=output)


def _result(result: Json, succeeds: bool, fault: str | None) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=encoded(result).decode())],
        structured_content=result if succeeds else None,
        is_error=not succeeds,
        _meta={"slca/fault": fault} if fault else None,
    )


def _session_id(headers: Mapping[str, str]) -> str:
    return headers.get(SESSION_HEADER) or _own_session(headers) or DEFAULT_SESSION


def _own_session(headers: Mapping[str, str]) -> str:
    """The session of an MCP session; empty where there is none."""
    return f"mcp:{headers[MCP_SESSION_HEADER]}" if MCP_SESSION_HEADER in headers else ""


def _security(host: str) -> TransportSecuritySettings:
    """On loopback, pages of other sites are kept out (DNS rebinding), as the protocol demands; elsewhere any name may be ours."""
    if host not in LOOPBACK:
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    names = ["127.0.0.1", "localhost", "[::1]"]
    return TransportSecuritySettings(
        allowed_hosts=[*names, *(f"{name}:*" for name in names)],
        allowed_origins=[f"{scheme}://{name}{port}" for scheme in ("http", "https") for name in names for port in ("", ":*")],
    )
