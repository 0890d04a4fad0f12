"""The JSON that crosses the network, and the document that describes the server."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from serving import NOTES

from slca.records import Json
from slca.sgls.importers.openapi import from_openapi
from slca.sgls.server import Service
from slca.sgls.server.jsons import NotJson, decoded, encoded
from slca.sgls.server.openapi import document

DOCUMENTS = Path(__file__).parent.parent / "documents"
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(VALUES.filter(lambda value: "\\ud" not in json.dumps(value)))
def test_every_json_value_arrives_as_it_was_sent(value: Json) -> None:
    assert decoded(json.dumps(value).encode(), 64) == value
    assert decoded(encoded(value), 64) == value


@given(st.integers(0, 80))
@example(64)
@example(65)
def test_nesting_is_counted_in_levels(levels: int) -> None:
    for text in ("[1,2," * levels + "1" + "]" * levels, '{"a":1,"b":' * levels + "1" + "}" * levels):
        if levels <= 64:
            decoded(text.encode(), levels)
        else:
            with pytest.raises(NotJson, match="deeper than 64 levels"):
                decoded(text.encode(), 64)


def _references(value: Json) -> Iterator[str]:
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if key == "$ref" and isinstance(inner, str):
            yield inner
        yield from _references(inner)


@pytest.mark.parametrize("name", sorted(path.stem for path in DOCUMENTS.glob("*.yaml")))
def test_every_reference_of_the_document_leads_to_its_target(name: str) -> None:
    imported = from_openapi(yaml.safe_load((DOCUMENTS / f"{name}.yaml").read_text(encoding="utf-8")), name)
    described = document(Service(imported.tools))
    references = set(_references(described))
    assert any("$defs" in reference for reference in references) or name == "odd_names"
    for reference in references:
        value = described
        for part in reference.removeprefix("#/").split("/"):
            value = value[part.replace("~1", "/").replace("~0", "~")]
        assert isinstance(value, dict | bool)


def test_the_document_describes_routes_tools_and_control_paths() -> None:
    paths = document(Service(NOTES))["paths"]
    assert paths["/notes"].keys() == {"get", "post"} and paths["/notes/{id}"].keys() == {"get", "patch", "delete"}
    assert [parameter["name"] for parameter in paths["/notes"]["get"]["parameters"]] == ["q", "min-stars", "max-stars"]
    created = paths["/notes"]["post"]
    assert created["requestBody"]["content"]["application/json"]["schema"]["required"] == ["title", "stars"]
    assert {"201", "400", "409", "413", "422", "429"} <= created["responses"].keys() and "200" not in created["responses"]
    assert "content" not in paths["/notes/{id}"]["delete"]["responses"]["204"]
    assert {f"/tools/{tool.name}" for tool in NOTES} | {"/tools", "/_slca/sessions", "/_slca/sessions/{id}/fork"} <= paths.keys()
    names = [operation["operationId"] for path in paths.values() for key, operation in path.items() if key != "parameters"]
    assert len(names) == len(set(names))
