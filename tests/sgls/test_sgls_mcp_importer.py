"""The MCP importer against real servers over stdio and streamable HTTP, and the stored lists it made."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slca.errors import DataError, MissingDependency
from slca.sgls.catalog_loader import MCP_LISTS
from slca.sgls.importers.base import Imported
from slca.sgls.importers.mcp import MOST_TOOLS, from_mcp, list_http, list_stdio
from slca.sgls.importers.source import load_source
from slca.sgls.stage import load_imports

SERVER = [sys.executable, str(Path(__file__).with_name("tiny_mcp_server.py"))]
HEADERS = {"X-Key": "k"}


@pytest.fixture
def client() -> None:
    pytest.importorskip("mcp", reason="the mcp extra is not installed")


@pytest.fixture
def url(client: None) -> Iterator[str]:
    with subprocess.Popen([*SERVER, "http"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        process.terminate()


def check_tiny(imported: Imported) -> None:
    add, ping = imported.tools
    assert (add.name, add.description, add.required, add.original) == ("add", "Add São Paulo sums.", ("a",), "")
    assert add.output == {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
    assert (ping.name, ping.original, ping.output) == ("ping_the_server", "ping/the server", None)
    assert {tool.source for tool in imported.tools} == {"mcp:../tiny==2.1"} and not imported.refused


def test_every_page_of_a_list_over_stdio_becomes_tools(client: None) -> None:
    document = list_stdio(SERVER)
    assert [tool["name"] for tool in document["tools"]] == ["add", "ping/the server"]
    check_tiny(from_mcp(document, "tiny"))


def test_every_page_of_a_list_over_http_becomes_tools(url: str) -> None:
    check_tiny(from_mcp(list_http(url, HEADERS), "tiny"))


def test_a_source_may_be_a_url_or_a_command_and_the_servers_name_is_made_safe(url: str) -> None:
    for imported in (load_source(url, headers=HEADERS), load_source(f"mcp:{' '.join(SERVER)}")):
        check_tiny(imported)
        assert {tool.domain for tool in imported.tools} == {"tiny"}
    with pytest.raises(DataError, match="kind 'mcp', not 'openapi'"):
        load_source(url, "openapi", HEADERS)


def test_a_server_over_http_that_refuses_is_a_sentence_with_its_status(url: str) -> None:
    with pytest.raises(DataError, match="HTTP 401"):
        list_http(url)
    with pytest.raises(DataError, match="HTTP 404"):
        list_http(url.replace("/mcp", "/elsewhere"), HEADERS)


def test_a_server_over_http_that_is_absent_or_silent_is_a_sentence(client: None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"
        with pytest.raises(DataError, match=r"within 0\.3 seconds"):
            list_http(address, timeout=0.3)
    with pytest.raises(DataError, match="did not list its tools"):
        list_http(address)


def test_a_server_over_stdio_that_is_missing_dies_hangs_or_never_ends_is_a_sentence(client: None) -> None:
    with pytest.raises(MissingDependency, match="no-such-program"):
        list_stdio(["no-such-program-anywhere"])
    with pytest.raises(DataError, match="did not list its tools"):
        list_stdio([sys.executable, "-c", "pass"])
    with pytest.raises(DataError, match=r"within 0\.5 seconds"):
        list_stdio([sys.executable, "-c", "import sys; sys.stdin.read()"], timeout=0.5)
    with pytest.raises(DataError, match=f"more than {MOST_TOOLS} tools"):
        list_stdio([*SERVER, "endless"])


def test_without_the_mcp_package_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*(name for name in sys.modules if name.partition(".")[0] == "mcp"), "mcp"]:
        monkeypatch.setitem(sys.modules, name, None)
    for listing in (lambda: list_stdio(["server"]), lambda: list_http("http://127.0.0.1:1/mcp")):
        with pytest.raises(MissingDependency, match=r"slca\[mcp\]"):
            listing()


def test_the_command_stores_a_list_that_loads(client: None, tmp_path: Path) -> None:
    module = [
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
    subprocess.run([*module, *SERVER], check=True, capture_output=True)
    document = json.loads((tmp_path / "tiny.json").read_text(encoding="utf-8"))
    assert document.keys() == {"package", "version", "tools"} and str(tmp_path) not in json.dumps(document)
    tools = load_imports(tmp_path / "tiny.json")
    assert [tool.name for tool in tools] == ["add", "ping_the_server"] and tools[0].source == "mcp:tiny==1.0"
    failed = subprocess.run([*module, sys.executable, "-c", "pass"], capture_output=True, text=True)
    assert failed.returncode == 2 and "did not list its tools" in failed.stderr and "Traceback" not in failed.stderr


TOOL: dict[str, Any] = {"name": "a", "inputSchema": {"type": "object"}}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"name": "b"}, "no inputSchema"),
        ({"name": "b", "inputSchema": "object"}, "no inputSchema"),
        ({"inputSchema": {"type": "object"}}, "a name"),
        ("b", "a name"),
        ({"name": "b", "inputSchema": {"type": "nothing"}}, "JSON Schema"),
        ({"name": "b", "inputSchema": {"type": "array"}}, "'object'"),
        ({"name": "b", "inputSchema": {"type": "object", "properties": {"x": {"$ref": "#/$defs/x"}}}}, "has no target"),
        (TOOL, "occurs twice, first at #/tools/0"),
    ],
)
def test_a_bad_tool_is_refused_with_its_place_and_the_others_are_imported(bad: Any, reason: str) -> None:
    imported = from_mcp({"tools": [TOOL, bad, {**TOOL, "name": "c"}]}, "odd-list")
    (refused,) = imported.refused
    assert refused.place == "#/tools/1" and reason in refused.reason
    assert [tool.name for tool in imported.tools] == ["a", "c"]


def test_an_output_schema_that_cannot_be_used_costs_the_schema_and_not_the_tool() -> None:
    imported = from_mcp({"tools": [{**TOOL, "outputSchema": {"type": "nothing"}}]}, "odd-list")
    assert imported.tools[0].output is None and not imported.refused
    assert imported.notes[0].place == "#/tools/0" and "without its output schema" in imported.notes[0].reason


@pytest.mark.parametrize("document", [{}, {"tools": {}}, "tools", None, {"result": {"prompts": []}}])
def test_what_is_no_list_is_an_error_that_names_it(document: Any) -> None:
    with pytest.raises(DataError, match="odd-list"):
        from_mcp(document, "odd-list")


def test_the_answer_to_tools_list_is_read_with_and_without_its_envelope() -> None:
    answer = {"tools": [TOOL]}
    (plain,), (wrapped,), (bare,) = (from_mcp(form, "l").tools for form in (answer, {"id": 1, "result": answer}, [TOOL]))
    assert plain == wrapped == bare


def test_the_stored_lists_are_imported_whole() -> None:
    assert not any(load_source(str(path)).refused for path in MCP_LISTS.glob("*.json"))


def test_the_stored_lists_hold_real_tools_with_package_and_version() -> None:
    tools = {tool.name: tool for tool in load_imports(MCP_LISTS)}
    assert {"get_current_time", "convert_time", "git_status", "git_commit", "git_log"} <= tools.keys()
    assert tools["convert_time"].output is not None and tools["convert_time"].output["required"][0] == "source"
    for path in MCP_LISTS.glob("*.json"):
        document = json.loads(path.read_text(encoding="utf-8"))
        assert document["package"] == path.stem and document["version"] in tools["git_status"].source
