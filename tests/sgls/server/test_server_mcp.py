"""The official MCP client, unmodified, over streamable HTTP: it lists, calls, and reads typed errors."""

import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
import yaml
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from serving import NOTES, Running, notes, serving

from slca.sgls.backends import Request
from slca.sgls.backends.schema import SchemaBackend
from slca.sgls.importers.openapi import from_openapi
from slca.sgls.inference import infer
from slca.sgls.server import Service

DOCUMENTS = Path(__file__).parent.parent / "documents"
MODES = ["auto", "legacy"]
"""``legacy`` shakes hands first and has an MCP session; ``auto`` speaks the newest protocol, which has none."""


async def _connected(stack: AsyncExitStack, url: str, mode: str, session: str | None = None) -> Client:
    if session is None:
        return await stack.enter_async_context(Client(f"{url}/mcp", mode=mode))
    http = await stack.enter_async_context(httpx2.AsyncClient(headers={"X-SLCA-Session": session}))
    return await stack.enter_async_context(Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode))


@pytest.mark.parametrize("mode", MODES)
def test_the_official_client_lists_and_calls_the_tools(server: Running, mode: str) -> None:
    async def talk() -> None:
        async with AsyncExitStack() as stack:
            client = await _connected(stack, server.url, mode, f"mcp-{mode}")
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert list(tools) == [tool.name for tool in NOTES]
            assert tools["create_note"].input_schema == NOTES[0].parameters
            assert tools["create_note"].output_schema == NOTES[0].output
            made = await client.call_tool("create_note", {"title": "Łódź", "stars": 1})
            note: Any = made.structured_content
            assert not made.is_error and json.loads(made.content[0].text) == note
            read = await client.call_tool("read_note", {"note_id": note["id"]})
            assert read.structured_content == {"id": note["id"], "title": "Łódź", "stars": 1}
            count = await client.call_tool("count_words", {"text": "a"})
            assert isinstance(count.structured_content["result"], int)

    anyio.run(talk)
    over_http = server.client(f"mcp-{mode}").send("GET", "/notes?q=%C5%82").json["notes"]
    assert [note["title"] for note in over_http] == ["Łódź"]  # both ways lead to one state


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("create_note", {"title": "", "stars": 1}, "invalid_arguments"),
        ("read_note", {"note_id": "nothing"}, "not_found"),
        ("no_such_tool", {}, "unknown_tool"),
    ],
)
def test_typed_errors_are_results_with_is_error(server: Running, mode: str, name: str, arguments: Any, error: str) -> None:
    async def talk() -> Any:
        async with AsyncExitStack() as stack:
            return await (await _connected(stack, server.url, mode)).call_tool(name, arguments)

    result = anyio.run(talk)
    assert result.is_error and json.loads(result.content[0].text)["error"]["type"] == error


def test_each_mcp_session_has_a_state_of_its_own_that_ends_with_it(server: Running) -> None:
    def sessions() -> set[str]:
        return set(server.client().send("GET", "/_slca/sessions").json["sessions"])

    async def talk() -> None:
        async with AsyncExitStack() as stack:
            one = await _connected(stack, server.url, "legacy")
            two = await _connected(stack, server.url, "legacy")
            assert not (await one.call_tool("delete_note", {"note_id": "first"})).is_error
            assert (await one.call_tool("read_note", {"note_id": "first"})).is_error
            assert not (await two.call_tool("read_note", {"note_id": "first"})).is_error
            assert len(sessions() - before) == 2

    before = sessions()
    anyio.run(talk)
    assert sessions() == before


def test_injected_faults_are_labelled() -> None:
    async def talk() -> None:
        async with AsyncExitStack() as stack:
            client = await _connected(stack, server.url, "auto")
            result = await client.call_tool("find_notes", {})
            assert result.is_error and result.meta["slca/fault"] == "rate_limit"
            assert json.loads(result.content[0].text)["error"]["type"] == "fault"

    with serving(notes(fault_rate=1.0, fault_kinds=["rate_limit"])) as server:
        anyio.run(talk)


def test_pages_of_other_sites_are_kept_out(server: Running) -> None:
    client = server.client()
    call = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    accept = "application/json, text/event-stream"
    assert client.send("POST", "/mcp", call, Origin="http://evil.example", Accept=accept).status == 403
    assert client.send("POST", "/mcp", call, Host="evil.example", Accept=accept).status == 421


def test_imported_tools_are_listed_and_answer_under_their_output_schemas() -> None:
    """The client itself checks each result against the listed schema; recursive schemas and bare lists are among them."""
    tools = [
        tool
        for name in ("comments_recursive", "library_31", "petstore")
        for tool in infer(from_openapi(yaml.safe_load((DOCUMENTS / f"{name}.yaml").read_text(encoding="utf-8")), name).tools)
    ]
    backend = SchemaBackend()

    async def talk(mode: str) -> int:
        async with AsyncExitStack() as stack:
            client = await _connected(stack, server.url, mode, f"imported-{mode}")
            assert [tool.name for tool in (await client.list_tools()).tools] == [tool.name for tool in tools]
            answered = 0
            for tool in tools:
                arguments = backend.fill(Request(tool.parameters, [tool.name], {}, {}, 0))
                answered += not (await client.call_tool(tool.name, arguments)).is_error
            return answered

    with serving(Service(tuple(tools))) as server:
        for mode in MODES:
            assert anyio.run(talk, mode) > len(tools) // 2
