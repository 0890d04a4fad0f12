"""A real MCP server for tests, on stdio; with ``http`` on a free loopback port, which it prints, for requests with X-Key: k.

Tools come one to a page. With ``endless`` every page has a thousand, and there is always one more.
"""

import socket
import sys

import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

INPUT = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
OUTPUT = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
TOOLS = [
    types.Tool(name="add", description="Add São Paulo sums.", input_schema=INPUT, output_schema=OUTPUT),
    types.Tool(name="ping/the server", input_schema={"type": "object"}),
]


async def listed(context, params):
    page = int(params.cursor) if params and params.cursor else 0
    if "endless" in sys.argv:
        return types.ListToolsResult(tools=TOOLS[:1] * 1000, next_cursor=str(page + 1))
    more = str(page + 1) if page + 1 < len(TOOLS) else None
    return types.ListToolsResult(tools=[TOOLS[page]], next_cursor=more)


server = Server("../tiny", version="2.1", on_list_tools=listed)


async def on_stdio():
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def on_http():
    import uvicorn
    from starlette.responses import Response

    app = server.streamable_http_app()

    async def with_key(scope, receive, send):
        allowed = scope["type"] != "http" or dict(scope["headers"]).get(b"x-key") == b"k"
        await (app if allowed else Response(status_code=401))(scope, receive, send)

    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(with_key, log_level="error")).run(sockets=[listening])


if __name__ == "__main__":
    on_http() if "http" in sys.argv else anyio.run(on_stdio)
