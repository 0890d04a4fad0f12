"""The MCP importer against a real server over stdio, and the stored lists it made."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slca.errors import DataError, MissingDependency, ToolError
from slca.sgls.catalog_loader import MCP_LISTS, load_mcp_lists
from slca.sgls.importers import IMPORTERS
from slca.sgls.importers.mcp import from_tools_list, import_stdio

# A server that lists one tool per page.
SERVER = """
import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

INPUT = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
OUTPUT = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
TOOLS = [
    types.Tool(name="add", description="Add São Paulo sums.", input_schema=INPUT, output_schema=OUTPUT),
    types.Tool(name="ping-server", input_schema={"type": "object"}),
]

async def listed(context, params):
    page = int(params.cursor) if params and params.cursor else 0
    more = str(page + 1) if page + 1 < len(TOOLS) else None
    return types.ListToolsResult(tools=[TOOLS[page]], next_cursor=more)

async def main():
    server = Server("tiny", on_list_tools=listed)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

anyio.run(main)
"""


@pytest.fixture
def client() -> None:
    pytest.importorskip("mcp", reason="the mcp extra is not installed")


@pytest.fixture
def server(tmp_path: Path, client: None) -> list[str]:
    path = tmp_path / "server.py"
    path.write_text(SERVER, encoding="utf-8")
    return [sys.executable, str(path)]


def test_every_page_of_a_real_servers_list_becomes_tools(server: list[str]) -> None:
    listed = import_stdio(server)
    assert [tool["name"] for tool in listed] == ["add", "ping-server"]
    add, ping = from_tools_list({"package": "tiny", "version": "1.0", "tools": listed}, "tiny")
    assert add.description == "Add São Paulo sums." and add.required == ("a",)
    assert add.output == {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
    assert (add.domain, add.source, ping.name, ping.output) == ("tiny", "mcp:tiny==1.0", "ping-server", None)


def test_the_command_stores_a_list_that_loads(server: list[str], tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "slca.sgls.importers",
        "--package",
        "tiny",
        "--version",
        "1.0",
        "--folder",
        str(tmp_path),
        "--",
    ]
    subprocess.run([*command, *server], check=True, capture_output=True)
    document = json.loads((tmp_path / "tiny.json").read_text(encoding="utf-8"))
    assert document.keys() == {"package", "version", "tools"} and str(tmp_path) not in json.dumps(document)
    assert [tool.name for tool in load_mcp_lists(["tiny"], tmp_path)] == ["add", "ping-server"]
    failed = subprocess.run([*command, sys.executable, "-c", "pass"], capture_output=True, text=True)
    assert failed.returncode == 2 and "did not list its tools" in failed.stderr and "Traceback" not in failed.stderr


def test_a_server_that_is_missing_dies_or_hangs_is_a_sentence(client: None) -> None:
    with pytest.raises(MissingDependency, match="no-such-program"):
        import_stdio(["no-such-program-anywhere"])
    with pytest.raises(DataError, match="did not list its tools"):
        import_stdio([sys.executable, "-c", "pass"])
    with pytest.raises(DataError, match="Timeout"):
        import_stdio([sys.executable, "-c", "import sys; sys.stdin.read()"], timeout=0.5)


def test_without_the_mcp_package_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(MissingDependency, match=r"slca\[mcp\]"):
        import_stdio(["server"])


@pytest.mark.parametrize(
    ("document", "error", "fault"),
    [
        ([], DataError, "tools"),
        ({"tools": {}}, DataError, "tools"),
        ({"tools": [{"name": "a"}]}, DataError, "inputSchema"),
        ({"tools": [{"name": "a/b", "inputSchema": {"type": "object"}}]}, ToolError, "a/b"),
        ({"tools": [{"name": "a", "inputSchema": {"type": "object"}}] * 2}, ToolError, "twice"),
        ({"tools": [{"name": "a", "inputSchema": {"type": "nothing"}}]}, ToolError, "JSON Schema"),
    ],
)
def test_a_bad_list_is_refused_with_its_name(document: Any, error: type[Exception], fault: str) -> None:
    with pytest.raises(error, match=fault) as raised:
        IMPORTERS["mcp"](document, "odd-list")
    assert "odd-list" in str(raised.value)


def test_the_stored_lists_hold_real_tools_with_package_and_version() -> None:
    tools = {tool.name: tool for tool in load_mcp_lists(("mcp-server-time", "mcp-server-git"))}
    assert {"get_current_time", "convert_time", "git_status", "git_commit", "git_log"} <= tools.keys()
    assert tools["convert_time"].output is not None and tools["convert_time"].output["required"][0] == "source"
    for path in MCP_LISTS.glob("*.json"):
        document = json.loads(path.read_text(encoding="utf-8"))
        assert document["package"] == path.stem and document["version"] in tools["git_status"].source
