"""Tool lists of MCP servers: asked once over stdio with the official ``mcp`` client, stored, and read back without it.

A stored list is a JSON document ``{"package", "version", "tools"}`` whose tools are as the server sent them (``name``,
``description``, ``inputSchema``, ``outputSchema``, ...). Nothing of the machine it was made on is kept.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from slca.errors import DataError, MissingDependency
from slca.records import Json
from slca.sgls.tool import Tool, load_tools

TIMEOUT = 60.0
"""Seconds for a server to start and to list its tools."""


def import_stdio(command: Sequence[str], timeout: float = TIMEOUT) -> list[dict[str, Any]]:
    """The tools that the server started by ``command`` lists, every page of them, as JSON objects.

    Raises MissingDependency without the ``mcp`` package or the program, DataError where the server does not answer.
    """
    try:
        from mcp import ClientSession, StdioServerParameters
        from mcp.client.stdio import stdio_client
        from mcp.types import PaginatedRequestParams
    except ImportError:
        raise MissingDependency("Listing an MCP server's tools needs the mcp package; install slca[mcp].") from None

    async def listed() -> list[dict[str, Any]]:
        tools: list[dict[str, Any]] = []
        server = StdioServerParameters(command=command[0], args=list(command[1:]))
        async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            cursor: str | None = None
            while True:
                page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
                document = page.model_dump(mode="json", by_alias=True, exclude_none=True)
                tools += document["tools"]
                cursor = document.get("nextCursor")
                if not cursor:
                    return tools

    try:
        return asyncio.run(asyncio.wait_for(listed(), timeout))
    except FileNotFoundError:
        raise MissingDependency(
            f"The MCP server's program {command[0]!r} was not found; install it or mend the command."
        ) from None
    except Exception as error:
        # The named boundary to a foreign process: whatever it does wrong arrives here, as an exception group among others.
        raise DataError(f"The MCP server {' '.join(command)!r} did not list its tools: {_reason(error)}.") from None


def from_tools_list(document: Json, source: str) -> tuple[Tool, ...]:
    """Checked tools from a stored list (or a bare ``tools/list`` result). Raises DataError, ToolError; both name ``source``."""
    tools = document.get("tools") if isinstance(document, dict) else None
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise DataError(
            f"{source}: field tools must be a list of objects; store the list again with python -m slca.sgls.importers."
        )
    version = f"=={document['version']}" if "version" in document else ""
    definitions = []
    for tool in tools:
        if "inputSchema" not in tool:
            raise DataError(f"{source}: tool {tool.get('name')!r} has no inputSchema; store the list again.")
        definition = {"name": tool.get("name"), "description": tool.get("description", ""), "parameters": tool["inputSchema"]}
        if "outputSchema" in tool:
            definition["output"] = tool["outputSchema"]
        definitions.append({**definition, "domain": source, "source": f"mcp:{document.get('package', source)}{version}"})
    return load_tools(definitions, source)


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__} {error}".strip().rstrip(".")
