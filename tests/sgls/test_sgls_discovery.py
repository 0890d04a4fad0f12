"""What a Discovery document's methods become as tools."""

import json
from pathlib import Path
from typing import Any

import pytest

from slca.errors import DataError
from slca.sgls.importers.base import Imported
from slca.sgls.importers.discovery import from_discovery
from slca.sgls.tool import Place, Tool, load_tools
from slca.sgls.validation import check_usable, fault, validator

DOCUMENT = json.loads((Path(__file__).with_name("documents") / "notes_discovery.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def imported() -> Imported:
    return from_discovery(DOCUMENT, "notes")


@pytest.fixture(scope="module")
def tools(imported: Imported) -> dict[str, Tool]:
    for tool in load_tools([tool.to_json() for tool in imported.tools], "notes"):
        for schema in (tool.parameters, tool.output):
            assert schema is not None
            check_usable(schema, tool.name)
    return {tool.name: tool for tool in imported.tools}


def test_methods_of_all_levels_become_tools_with_their_ids_as_originals(tools: dict[str, Tool]) -> None:
    assert {name: tool.original for name, tool in tools.items()} == {
        "notes_ping": "notes.ping",
        "notes_notebooks_export": "notes.notebooks.export",
        "notes_notebooks_notes_list": "notes.notebooks.notes.list",
        "notes_notebooks_notes_create": "notes.notebooks.notes.create",
        "notes_notebooks_notes_patch": "notes.notebooks.notes.patch",
    }


def test_a_path_that_takes_several_segments_says_which(tools: dict[str, Tool]) -> None:
    assert {tool.route.path for tool in tools.values() if tool.route} == {
        "/ping",
        "/notebooks/{id}/export",
        "/v1/{parent=notebooks/*}/notes",
        "/v1/{name=notebooks/*/notes/*}",
    }


@pytest.mark.parametrize(
    ("pattern", "template"),
    [
        ("^projects/[^/]+/topics/[^/]+$", "projects/*/topics/*"),
        ("^projects/[^/]+/settings$", "projects/*/settings"),
        ("^folders/.*$", "folders/**"),
        ("^[^/]+$", "*"),
        ("^.*$", "**"),
        ("^(a|b)/[^/]+$", "**"),
        ("^a/.*/b$", "**"),
        (None, "**"),
    ],
)
def test_a_pattern_becomes_a_path_template(pattern: str | None, template: str) -> None:
    parameter = {"type": "string", "location": "path", "required": True, **({"pattern": pattern} if pattern else {})}
    method = {"id": "get", "httpMethod": "GET", "path": "v1/{+name}:go", "parameters": {"name": parameter}}
    (tool,) = from_discovery({"discoveryVersion": "v1", "methods": {"get": method}}, "one").tools
    assert tool.route is not None
    assert tool.route.path == f"/v1/{{name={template}}}:go"
    assert tool.route.arguments == {"name": Place(part="path", name="name")}


def test_parameters_keep_types_bounds_and_defaults(tools: dict[str, Tool]) -> None:
    listed = tools["notes_notebooks_notes_list"]
    assert listed.required == ("parent",)
    assert listed.properties == {
        "parent": {"type": "string", "pattern": "^notebooks/[^/]+$"},
        "pageSize": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 100, "default": 10},
        "labels": {"type": "array", "items": {"type": "string"}, "description": "All of these."},
        "archived": {"type": "boolean", "default": False},
    }


def test_a_request_is_taken_apart_without_what_only_the_service_sets(tools: dict[str, Tool]) -> None:
    create, patch = tools["notes_notebooks_notes_create"], tools["notes_notebooks_notes_patch"]
    assert "name" not in create.properties
    assert create.required == ("parent", "text"), "a field is required by the methods that its annotation names"
    assert patch.required == ("name",)
    assert patch.route is not None
    assert patch.route.arguments["name"] == Place(part="path", name="name")
    assert patch.route.arguments["text"] == Place(part="field", name="text")


def test_an_answer_refers_to_its_schemas_by_name(tools: dict[str, Tool]) -> None:
    output = tools["notes_notebooks_notes_list"].output
    assert output is not None and set(output["$defs"]) == {"Note"}
    note: dict[str, Any] = {"name": "n", "size": "12", "extra": [1], "replies": [{"created": "2026-03-01T18:30:00Z"}]}
    compiled = validator(output)
    assert fault(compiled, {"notes": [note]}, "value") is None
    assert fault(compiled, {"notes": [{**note, "size": "many"}]}, "value") is not None
    assert fault(compiled, {"notes": [{**note, "replies": [{"color": "GREEN"}]}]}, "value") is not None


def test_a_method_without_an_answer_has_no_content_and_a_download_is_text(tools: dict[str, Tool]) -> None:
    ping, export = tools["notes_ping"], tools["notes_notebooks_export"]
    assert ping.route is not None and (ping.output, ping.route.status) == ({"type": "null"}, 204)
    assert export.route is not None and (export.output, export.route.status) == ({"type": "string"}, 200)


def test_what_is_left_out_is_named_with_its_place(imported: Imported) -> None:
    notes = "#/resources/notebooks/resources/notes/methods"
    assert [(refused.place, refused.name) for refused in imported.refused] == [(f"{notes}/move", "notes.notebooks.notes.move")]
    assert imported.refused[0].reason == f"at {notes}/move/request/$ref: $ref '#/schemas/Nowhere' has no target"
    assert [note.place for note in imported.notes] == [
        "#/parameters",
        "#/resources/notebooks/methods/export/supportsMediaDownload",
        f"{notes}/create/supportsMediaUpload",
    ]


@pytest.mark.parametrize("document", [None, [], {}, {"discoveryVersion": "v1"}, {"openapi": "3.0.0", "paths": {}}])
def test_what_is_no_discovery_document_is_refused_in_one_sentence(document: Any) -> None:
    with pytest.raises(DataError, match=r"^thing\.json is no Discovery document[^\n]*\.$"):
        from_discovery(document, "thing.json")
