"""One way in for every source: how documents are read, how their kind is recognised, and what is refused in a sentence."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from slca.errors import DataError, SlcaError, ToolError
from slca.sgls.catalog_loader import CATALOG, load_catalog, load_service
from slca.sgls.importers.document import DEEPEST_DOCUMENT
from slca.sgls.importers.reading import LARGEST_JSON, MOST_UNFOLDED, read_document
from slca.sgls.importers.source import IMPORTERS, KINDS, load_source
from slca.sgls.tool import load_tool

GET = {"responses": {"200": {"description": "ok"}}}
OPENAPI = {
    "openapi": "3.1.0",
    "info": {"title": "t", "version": "1"},
    "paths": {"/pets": {"get": {"operationId": "pets", **GET}}},
}
DISCOVERY = {"discoveryVersion": "v1", "name": "d", "methods": {"pets": {"id": "d.pets", "httpMethod": "GET", "path": "pets"}}}
MCP = {"tools": [{"name": "pets", "inputSchema": {"type": "object"}}]}
FUNCTIONS = [{"type": "function", "function": {"name": "pets"}}]
SERVICE = {"domain": "zoo", "tools": [{"name": "pets", "parameters": {"type": "object"}}]}
DOCUMENTS = {"openapi": OPENAPI, "discovery": DISCOVERY, "mcp": MCP, "functions": FUNCTIONS, "service": SERVICE}


def file(folder: Path, text: str | bytes, name: str = "shop.yaml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("kind", IMPORTERS)
@pytest.mark.parametrize("name", ["shop.json", "shop.yaml", "shop.YML", "shop", "shop.v1"])
def test_the_kind_of_a_document_is_recognised_from_its_content(kind: str, name: str, tmp_path: Path) -> None:
    document = DOCUMENTS[kind]
    text = json.dumps(document) if "json" in name else yaml.safe_dump(document)
    imported = load_source(str(file(tmp_path, text, name)))
    assert [tool.original or tool.name for tool in imported.tools] == ["d.pets" if kind == "discovery" else "pets"]
    assert {tool.domain for tool in imported.tools} == {"zoo" if kind == "service" else "shop"}
    assert not imported.refused and imported == load_source(str(tmp_path / name), kind)


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        ({"jsonrpc": "2.0", "id": 1, "result": MCP}, "mcp"),
        (MCP["tools"], "mcp"),
        ({"model": "m", "messages": [], "tools": FUNCTIONS}, "functions"),
        ({"functions": [{"name": "pets"}]}, "functions"),
        ([{"type": "web_search"}, {"name": "pets", "input_schema": {}}], "functions"),
    ],
)
def test_lists_are_recognised_in_their_envelopes(document: Any, kind: str, tmp_path: Path) -> None:
    path = file(tmp_path, json.dumps(document), "shop.json")
    imported = load_source(str(path))
    assert [tool.name for tool in imported.tools] == ["pets"] and imported == IMPORTERS[kind](document, "shop")


@pytest.mark.parametrize("document", [{}, [], None, 3, "tools", {"tools": []}, {"paths": {}}, [1, 2], {"tools": "x"}])
def test_a_document_of_no_known_kind_is_refused_with_the_known_ones(document: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError) as raised:
        load_source(str(file(tmp_path, yaml.safe_dump(document))))
    assert "shop.yaml" in str(raised.value) and all(kind in str(raised.value) for kind in IMPORTERS)


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("shop.yaml", "wsdl", "no kind of source 'wsdl'.*openapi"),
        ("shop.yaml", "released", "shop.yaml is a document"),
        ("shop.yaml", "discovery", "shop is no Discovery document"),
        ("missing.yaml", "", "no file 'missing.yaml'.*mcp:COMMAND"),
        (".", "", r"no file '\.'"),
        ("", "", "no file ''"),
        ("x" * 5000, "", "no file 'xxx"),
        ("a\0b", "", "no file"),
        ("mcp:", "", "names no command"),
        ("mcp:run 'half", "", "no command: No closing quotation"),
        ("json:dumps", "openapi", "kind 'python', not 'openapi'"),
    ],
)
def test_a_source_that_cannot_be_what_is_asked_is_a_sentence(
    text: str, kind: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file(tmp_path, yaml.safe_dump(OPENAPI))
    with pytest.raises(DataError, match=reason):
        load_source(text, kind)


def test_every_kind_has_a_name_once() -> None:
    assert len(set(KINDS)) == len(KINDS) and {"openapi", "discovery", "mcp", "functions", "service", "released", "python"} == set(
        KINDS
    )


def test_a_service_file_is_read_like_the_catalog_and_refused_as_a_whole(tmp_path: Path) -> None:
    assert load_service(CATALOG / "weather.yaml", "catalog") == load_catalog(("weather",))
    path = file(tmp_path, yaml.safe_dump(SERVICE))
    (tool,) = load_service(path)
    assert (tool.name, tool.domain, tool.source) == ("pets", "zoo", "service") and load_source(str(path)).tools == (tool,)
    bad: list[tuple[Any, str]] = [
        ({**SERVICE, "extra": 1}, "nothing else"),
        ({**SERVICE, "domain": 3}, "domain is 3"),
        ({**SERVICE, "tools": ["pets"]}, "an object with a name"),
        ({**SERVICE, "tools": [SERVICE["tools"][0]] * 2}, "'pets' occurs twice"),  # type: ignore[index]
        ({**SERVICE, "tools": [{"name": "a b", "parameters": {"type": "object"}}]}, "'a b'"),
        ({**SERVICE, "tools": [{"name": "a", "parameters": {"type": "object"}, "colour": "red"}]}, "colour"),
        ({**SERVICE, "tools": [{"name": "a", "parameters": {"type": "object", "pattern": "a{99999999999}"}}]}, "'a': .*pattern"),
        ({**SERVICE, "tools": [{"parameters": {"type": "object"}}]}, "None: field name"),
    ]
    for document, reason in bad:
        with pytest.raises(ToolError, match=reason) as raised:
            load_service(file(tmp_path, yaml.safe_dump(document)))
        assert "shop.yaml" in str(raised.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=150)
@given(JSON)
def test_any_json_value_comes_back_from_json_and_from_yaml_in_json_style(
    tmp_path_factory: pytest.TempPathFactory, value: Any
) -> None:
    folder = tmp_path_factory.getbasetemp()
    assert read_document(file(folder, json.dumps(value), "any.json")) == value
    assert read_document(file(folder, json.dumps(value, ensure_ascii=False), "any.json")) == value
    quoted = yaml.safe_dump(value, default_style='"', allow_unicode=False)
    assert read_document(file(folder, quoted, "any.yaml")) == value


WORDS = [
    "name",
    "description",
    "type",
    "function",
    "parameters",
    "inputSchema",
    "outputSchema",
    "properties",
    "$ref",
    "required",
    "object",
]
SHAPES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([*WORDS, "#/x", "a/é"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=16,
)


@settings(max_examples=200)
@given(st.sampled_from(sorted(IMPORTERS)), st.lists(SHAPES, max_size=4))
def test_any_shape_in_a_list_is_imported_or_refused_and_never_a_crash(kind: str, entries: list[Any]) -> None:
    document = {
        "openapi": {**OPENAPI, "paths": {"/x": {"get": {"responses": entries}, "put": {"parameters": entries, **GET}}}},
        "discovery": {**DISCOVERY, "methods": {str(index): entry for index, entry in enumerate(entries)}},
        "mcp": {"tools": entries},
        "functions": entries,
        "service": {"domain": "zoo", "tools": entries},
    }[kind]
    try:
        imported = IMPORTERS[kind](document, "shop")
    except SlcaError as error:
        assert kind == "service" and "shop" in str(error)
    else:
        if kind in ("mcp", "functions"):
            assert len(imported.tools) + len(imported.refused) == len(entries)
        for tool in imported.tools:
            assert load_tool(tool.to_json(), "again") == tool


def test_yaml_is_read_by_the_core_schema_of_1_2_with_keys_as_text(tmp_path: Path) -> None:
    text = """
    day: 2026-03-01
    country: no
    at: 12:30
    octal: [010, 0o17, 0x1F]
    number: [1e3, -2, +1.5, .5, 1_000]
    empty: [~, null, ]
    truth: [true, False, yes, on]
    200: ok
    on: off
    base: &base {x: 1, y: 2}
    merged: {<<: *base, y: 3}
    twice: [*base, *base]
    """
    assert read_document(file(tmp_path, text)) == {
        "day": "2026-03-01",
        "country": "no",
        "at": "12:30",
        "octal": [10, 15, 31],
        "number": [1000.0, -2, 1.5, 0.5, "1_000"],
        "empty": [None, None],
        "truth": [True, False, "yes", "on"],
        "200": "ok",
        "on": "off",
        "base": {"x": 1, "y": 2},
        "merged": {"x": 1, "y": 3},
        "twice": [{"x": 1, "y": 2}, {"x": 1, "y": 2}],
    }


def bomb(element: str) -> str:
    """Twenty levels of aliases, each with ten of the one before: 10^20 values in two kilobytes."""
    levels = [f"a{n}: &a{n} {element.format(','.join([f'*a{n - 1}'] * 10))}" for n in range(1, 21)]
    return "\n".join(["a0: &a0 {x: 1}", *levels])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: .nan", "nan is not finite"),
        ("a: -.inf", "inf is not finite"),
        ("a: 1e999", "1e999 is not finite"),
        (f"a: {'9' * 5000}", "4300 digits"),
        ("a: !!binary aGk=", "bytes"),
        ("a: !!python/object/apply:os.system [ls]", "line 1, column 4.*python/object"),
        ("a: 1\nb: 2\na: 3", "line 3, column 1.*'a' occurs twice"),
        ("200: 1\n'200': 2", "'200' occurs twice"),
        ("[a]: 1", "a key must be plain text"),
        ("a: [", "line 2, column 1"),
        ("a: 1\n---\nb: 2", "another document"),
        (b"a: \xff", "utf-8"),
        (b"a: \x00", "control characters"),
        ('a: "\\ud800"', "escape"),
        ("a: &a [*a]", "an alias stands inside what it names"),
        (bomb("[{}]"), f"more than {MOST_UNFOLDED} values"),
        (bomb("{{<<: [{}]}}"), f"more than {MOST_UNFOLDED} values"),
        ("[" * 100_000, "nesting depth"),
        ("[" * (DEEPEST_DOCUMENT + 100) + "]" * (DEEPEST_DOCUMENT + 100), f"more than {DEEPEST_DOCUMENT} levels"),
    ],
)
def test_yaml_that_is_no_json_or_unfolds_without_bound_is_refused_with_its_place(
    text: str | bytes, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=reason) as raised:
        read_document(file(tmp_path, text))
    assert "shop.yaml" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": {"b": 1, "b": 1}}', "'b' occurs twice"),
        (b'{"a": "\xff"}', "utf-8"),
        ('{"a": ', "line 1 column 7"),
        ('{"a": 1} x', "Extra data"),
        ("[NaN]", "NaN is not finite"),
        ("[-Infinity]", "-Infinity is not finite"),
        ("[1e999]", "1e999 is not finite"),
        (f"[{'9' * 5000}]", "4300 digits"),
        ('["\\ud800"]', "surrogate"),
        ("[" * 100_000, "levels deep"),
        ("[" * (DEEPEST_DOCUMENT + 1) + "]" * (DEEPEST_DOCUMENT + 1), f"deeper than {DEEPEST_DOCUMENT} levels"),
        ("", "Expecting value"),
    ],
)
def test_json_that_is_broken_or_ambiguous_is_refused(text: str | bytes, reason: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=reason) as raised:
        read_document(file(tmp_path, text, "shop.json"))
    assert "shop.json" in str(raised.value)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    for name in ("shop.json", "shop.yaml", "shop"):
        assert read_document(file(tmp_path, b'\xef\xbb\xbf{"a": 1}', name)) == {"a": 1}


def test_a_message_repeats_little_of_what_it_refuses(tmp_path: Path) -> None:
    long = "x" * 1_000_000
    for text, name in [
        (f'{{"{long}": 1, "{long}": 2}}', "a.json"),
        (f"{long}: 1\n{long}: 2", "a.yaml"),
        (f"[{'1' * 1_000_000}.5]", "a.json"),
        (f"a: *{long}", "a.yaml"),
        (f"a: !{long} b", "a.yaml"),
    ]:
        with pytest.raises(DataError) as raised:
            read_document(file(tmp_path, text, name))
        assert len(str(raised.value)) < 1000


@pytest.mark.skipif(not Path("/proc/self/mem").is_file(), reason="needs a file that opens and cannot be read")
def test_a_file_that_cannot_be_read_is_a_sentence() -> None:
    with pytest.raises(DataError, match="/proc/self/mem cannot be read"):
        load_source("/proc/self/mem")


def test_a_file_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    for name, kind in (("huge.json", "JSON"), ("huge.yaml", "YAML"), ("huge", "YAML")):
        with (tmp_path / name).open("wb") as stream:
            stream.truncate(200 << 20)
        with pytest.raises(DataError, match=rf"{name} is larger than \d+ MiB, the most for a {kind} document"):
            load_source(str(tmp_path / name))
    exact = file(tmp_path, b'["' + b"x" * (LARGEST_JSON - 4) + b'"]', "large.json")
    assert len(read_document(exact)[0]) == LARGEST_JSON - 4
