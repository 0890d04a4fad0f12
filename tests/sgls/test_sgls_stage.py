"""Stage ``schemas``: what params.yaml names and nothing else, every tool checked before a file appears."""

from pathlib import Path

import pytest

from slca.errors import ParamsError, ToolError
from slca.params import Params
from slca.sgls import stage
from slca.sgls.catalog_loader import CATALOG, load_catalog, load_mcp_lists
from slca.sgls.compute import FUNCTIONS
from slca.sgls.importers.mcp import from_tools_list
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
    stage.run(params(domains=["weather", "banking"], mcp_lists=["mcp-server-time"]), tmp_path)
    tools = read_tools(tmp_path / "data" / "schemas.parquet")
    assert list(dict.fromkeys(tool.domain for tool in tools)) == ["banking", "weather", "mcp-server-time"]
    assert tools == load_catalog(("banking", "weather")) + load_mcp_lists(("mcp-server-time",))


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
    ("schemas", "known"), [({"domains": ["toys"]}, "banking"), ({"mcp_lists": ["mcp-toys"]}, "mcp-server-git")]
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
        (DOMAIN.replace("{type: string}", r"{pattern: '\p{L}'}"), "'regex'"),
        (DOMAIN.replace("type: string", "const: 2026-03-01"), "quotes"),
        (DOMAIN + "  behaviour: {kind: compute, function: guess}\n", "guess.*add_days"),
        (DOMAIN + "  behaviour: {kind: look_up}\n", "find_toys"),
        (DOMAIN + "- name: find_toys\n  parameters: {type: object}\n", "twice"),
        ("domain: toys\n", "must hold domain"),
        ("a: [", "YAML"),
    ],
)
def test_a_bad_domain_is_refused_with_file_and_fault(text: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "toys.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ToolError, match=fault) as raised:
        load_catalog(folder=tmp_path)
    assert "toys.yaml" in str(raised.value)


def test_a_name_in_two_domains_is_refused(tmp_path: Path) -> None:
    for name in ("games", "toys"):
        (tmp_path / f"{name}.yaml").write_text(DOMAIN.replace("domain: toys", f"domain: {name}"), encoding="utf-8")
    with pytest.raises(ToolError, match="find_toys"):
        load_catalog(folder=tmp_path)


def test_a_name_in_the_catalog_and_in_a_list_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    double = from_tools_list({"tools": [{"name": "check_balance", "inputSchema": {"type": "object"}}]}, "bank-server")
    monkeypatch.setattr(stage, "load_mcp_lists", lambda names: double)
    with pytest.raises(ToolError, match="check_balance"):
        stage.run(params(domains=["banking"]), tmp_path)
    assert not (tmp_path / "data").exists()
