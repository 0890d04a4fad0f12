"""Stage ``schemas``: what params.yaml names and nothing else, every tool checked before a file appears."""

import json
from pathlib import Path

import pytest

from slca.errors import ParamsError, SlcaError, ToolError
from slca.params import Params
from slca.sgls import stage
from slca.sgls.catalog_loader import CATALOG, MCP_LISTS, load_catalog
from slca.sgls.compute import FUNCTIONS
from slca.tables import read_tools

DOMAIN = """\
domain: toys
tools:
- name: find_toys
  parameters: {type: object, properties: {name: {type: string}}}
"""


def params(**schemas: object) -> Params:
    return Params.model_validate({"schemas": schemas})


def test_the_table_holds_the_chosen_domains_and_lists_in_order(tmp_path: Path) -> None:
    stage.run(params(domains=["weather", "banking"], imports=str(MCP_LISTS / "mcp-server-time.json")), tmp_path)
    tools = read_tools(tmp_path / "data" / "schemas.parquet")
    assert list(dict.fromkeys(tool.domain for tool in tools)) == ["banking", "weather", "mcp-server-time"]
    assert tools == load_catalog(("banking", "weather")) + stage.load_imports(MCP_LISTS / "mcp-server-time.json")


def test_two_runs_write_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        stage.run(Params(), tmp_path / name)
    first, second = ((tmp_path / name / "data" / "schemas.parquet").read_bytes() for name in ("a", "b"))
    assert first == second


def test_every_committed_domain_loads() -> None:
    assert {tool.domain for tool in load_catalog()} == {path.stem for path in CATALOG.glob("*.yaml")}


def test_every_function_of_the_catalog_exists() -> None:
    named = {tool.behaviour.function for tool in load_catalog() if tool.behaviour and tool.behaviour.function}
    assert named and named <= FUNCTIONS.keys()


@pytest.mark.parametrize(
    ("schemas", "known"), [({"domains": ["toys"]}, "banking"), ({"imports": "toys.yaml"}, "no file or folder toys.yaml")]
)
def test_an_unknown_name_is_refused_with_the_known_ones(schemas: dict[str, object], known: str, tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match=known):
        stage.run(params(**schemas), tmp_path)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (DOMAIN.replace("domain: toys", "domain: games"), "games"),
        (DOMAIN.replace("type: string", "type: strang"), "find_toys.*JSON Schema"),
        (DOMAIN.replace("{type: string}", "{$ref: '#/$defs/name'}"), "find_toys.*has no target"),
        (DOMAIN.replace("{type: string}", "{$ref: 'https://example.com/name'}"), "leaves the document"),
        (DOMAIN.replace("{type: string}", "{pattern: '('}"), "find_toys.*pattern"),
        (DOMAIN + "  behaviour: {kind: compute, function: guess}\n", "guess.*add_days"),
        (DOMAIN + "  behaviour: {kind: look_up}\n", "find_toys"),
        (DOMAIN + "- name: find_toys\n  parameters: {type: object}\n", "twice"),
        ("domain: toys\n", "must hold domain"),
        ("a: [", "YAML"),
    ],
)
def test_a_bad_domain_is_refused_with_file_and_fault(text: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "toys.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(SlcaError, match=fault) as raised:
        load_catalog(folder=tmp_path)
    assert "toys.yaml" in str(raised.value)


def test_a_name_in_two_domains_is_refused(tmp_path: Path) -> None:
    for name in ("games", "toys"):
        (tmp_path / f"{name}.yaml").write_text(DOMAIN.replace("domain: toys", f"domain: {name}"), encoding="utf-8")
    with pytest.raises(ToolError, match="find_toys"):
        load_catalog(folder=tmp_path)


def test_a_name_that_the_catalog_has_gets_the_document_s_name_in_front(tmp_path: Path) -> None:
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("check_balance", "open_gate")]
    for name in ("garage", "garage2"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"tools": tools}), encoding="utf-8")
    stage.run(params(domains=["banking"], imports=str(tmp_path)), tmp_path)
    stored = {tool.name: tool for tool in read_tools(tmp_path / "data" / "schemas.parquet") if tool.domain != "banking"}
    assert list(stored) == ["garage_check_balance", "open_gate", "garage2_check_balance", "garage2_open_gate"]
    assert stored["garage2_open_gate"].original == "open_gate"


def test_imported_operations_keep_what_was_inferred_of_them(tmp_path: Path) -> None:
    stage.run(params(domains=[], imports="tests/sgls/documents/petstore.yaml"), tmp_path)
    behaviours = {tool.name: tool.behaviour for tool in read_tools(tmp_path / "data" / "schemas.parquet")}
    found = behaviours["createVisit"]
    assert found is not None and (found.kind, found.entity) == ("create", "visit") and None not in behaviours.values()


def test_what_cannot_be_imported_is_logged_with_its_place_and_the_rest_is_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tools = [{"name": "broken", "inputSchema": {"type": "nothing"}}, {"name": "whole", "inputSchema": {"type": "object"}}]
    (tmp_path / "odd.json").write_text(json.dumps({"tools": tools}), encoding="utf-8")
    stage.run(params(domains=[], imports=str(tmp_path / "odd.json")), tmp_path)
    assert [tool.name for tool in read_tools(tmp_path / "data" / "schemas.parquet")] == ["whole"]
    assert "#/tools/0 (broken)" in caplog.text


def test_without_any_tool_there_is_nothing_to_train_on(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    with pytest.raises(ParamsError, match="there is no tool"):
        stage.run(params(domains=[], imports=str(tmp_path / "none")), tmp_path)


def test_a_fault_rate_of_an_unknown_tool_is_refused(tmp_path: Path) -> None:
    rates = Params.model_validate({"simulator": {"fault_rates": {"no_such_tool": 0.5}}})
    with pytest.raises(ParamsError, match="fault_rates: there is no tool 'no_such_tool'"):
        stage.run(rates, tmp_path)
