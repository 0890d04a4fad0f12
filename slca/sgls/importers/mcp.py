"""Tool lists of MCP servers: asked with the official ``mcp`` client over stdio or streamable HTTP, and read back without it.

A list is a JSON document ``{"package", "version", "tools"}``: what the server calls itself, and its tools as it sent them
(``name``, ``description``, ``inputSchema``, ``outputSchema``, ...). Also read are the tools alone, and the answer to
``tools/list`` with or without its envelope. Nothing of the machine that a list was made on is kept. The older HTTP+SSE
transport is not spoken.
"""

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from slca.errors import DataError, MissingDependency
from slca.records import Json
from slca.sgls.importers.base import Imported, Refused
from slca.sgls.importers.checked import Found, checked_tools

TIMEOUT = 60.0
"""Seconds for a server to start and to list its tools."""

MOST_TOOLS = 10_000
"""Tools of one server; a server that goes on listing is cut off."""

logging.getLogger("mcp").addHandler(logging.NullHandler())  # its tracebacks go to those who ask for logs, not to everybody


def list_stdio(command: Sequence[str], timeout: float = TIMEOUT) -> dict[str, Json]:
    """The list of the server that ``command`` starts, every page of it. timeout: seconds.

    Raises MissingDependency without the ``mcp`` package or the program, DataError where the server does not answer as MCP asks.
    """
    try:
        from mcp import StdioServerParameters
        from mcp.client.stdio import stdio_client
    except ImportError:
        raise _missing() from None
    program, *arguments = command
    if shutil.which(program) is None:
        raise MissingDependency(f"The MCP server's program {program!r} was not found; install it or mend the command.")
    return _list(stdio_client(StdioServerParameters(command=program, args=arguments)), " ".join(command), timeout)


def list_http(url: str, headers: Mapping[str, str] | None = None, timeout: float = TIMEOUT) -> dict[str, Json]:
    """The list of the server at ``url``, as ``list_stdio``. headers: sent with each request, such as an Authorization."""
    try:
        from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
    except ImportError:
        raise _missing() from None

    refusals: list[str] = []

    async def note(response: Any) -> None:
        if response.is_error:
            refusals.append(f"HTTP {response.status_code}")

    @asynccontextmanager
    async def connected() -> AsyncIterator[Any]:
        async with create_mcp_http_client(headers=dict(headers or {})) as client:
            client.event_hooks = {"response": [note]}  # the client's own error does not tell 401 from 500
            async with streamable_http_client(url, http_client=client) as streams:
                yield streams

    return _list(connected(), url, timeout, refusals)


def from_mcp(document: Json, source: str) -> Imported:
    """The tools of a list. Raises DataError where ``document`` is none."""
    if isinstance(document, dict) and isinstance(document.get("result"), dict):
        document = document["result"]
    envelope = document if isinstance(document, dict) else {"tools": document}
    tools = envelope.get("tools")
    if not isinstance(tools, list):
        raise DataError(f"{source}: an MCP tool list is an object whose field tools is a list, as tools/list answers.")
    version = f"=={envelope['version']}" if "version" in envelope else ""
    origin = f"mcp:{envelope.get('package', source)}{version}"
    return checked_tools([mcp_tool(tool, f"#/tools/{index}", origin) for index, tool in enumerate(tools)], source)


def mcp_tool(tool: Json, place: str, origin: str) -> Found | Refused:
    """One tool of a list, its schemas not yet checked. origin: its ``source``."""
    name = tool.get("name") if isinstance(tool, dict) else None
    if not isinstance(name, str) or not name:
        return Refused(place, str(name or ""), "a tool is an object with a name, which is text")
    if not isinstance(tool.get("inputSchema"), dict):
        return Refused(place, name, "it has no inputSchema, which MCP asks of every tool")
    definition = {"description": tool.get("description") or "", "parameters": {"type": "object"} | tool["inputSchema"]}
    if tool.get("outputSchema") is not None:
        definition["output"] = tool["outputSchema"]
    return Found(place, name, {**definition, "source": origin})


def _list(
    transport: AbstractAsyncContextManager[Any], server: str, timeout: float, refusals: Sequence[str] = ()
) -> dict[str, Json]:
    """The list of whoever is at the other end of ``transport``. Raises DataError that names ``server`` and the first refusal."""
    from mcp import ClientSession
    from mcp.types import PaginatedRequestParams

    async def listed() -> dict[str, Json]:
        tools: list[Json] = []
        async with asyncio.timeout(timeout), transport as (read, write, *_), ClientSession(read, write) as session:
            info = (await session.initialize()).server_info
            cursor: str | None = None
            while len(tools) <= MOST_TOOLS:
                page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
                tools += [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools]
                cursor = page.next_cursor
                if not cursor:
                    return {"package": info.name, "version": info.version, "tools": tools}
            raise OverflowError(f"more than {MOST_TOOLS} tools")

    try:
        return asyncio.run(listed())
    except TimeoutError:
        raise DataError(f"The MCP server {server!r} did not list its tools within {timeout:g} seconds.") from None
    except Exception as error:
        # The named boundary to a foreign process: whatever it does wrong arrives here, as an exception group among others.
        reason = ": ".join((*refusals[:1], _reason(error)))
        raise DataError(f"The MCP server {server!r} did not list its tools: {reason}.") from None


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__} {error}".strip().rstrip(".")


def _missing() -> MissingDependency:
    return MissingDependency("Listing an MCP server's tools needs the mcp package; install slca[mcp].")
