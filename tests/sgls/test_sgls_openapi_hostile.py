"""Whatever a document holds, it is imported in part, or refused in one sentence: no other exception, no unusable tool."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slca.errors import DataError
from slca.sgls.importers.discovery import from_discovery
from slca.sgls.importers.document import DEEPEST_DOCUMENT
from slca.sgls.importers.openapi import from_openapi
from slca.sgls.importers.schemas import DEEPEST_SCHEMA, MOST_GATHERED, MOST_IN_A_ROW
from slca.sgls.tool import load_tools
from slca.sgls.validation import check_usable, fault, validator

DOCUMENTS = Path(__file__).with_name("documents")
NAMES = (
    "petstore.yaml",
    "library_31.yaml",
    "comments_recursive.yaml",
    "odd_names.yaml",
    "tasks_swagger.yaml",
    "notes_discovery.json",
)
GOOD = [yaml.safe_load((DOCUMENTS / name).read_text(encoding="utf-8")) for name in NAMES]

WORDS = st.sampled_from(
    [
        *("$ref", "type", "properties", "items", "allOf", "oneOf", "required", "enum", "parameters", "schema", "content", "in"),
        *("name", "responses", "200", "default", "get", "pattern", "nullable", "exclusiveMinimum", "additionalProperties"),
        *(
            "object",
            "path",
            "query",
            "#",
            "#/",
            "#/components/schemas/Pet",
            "#/paths",
            "other.yaml",
            "#anchor",
            "~2",
            "(",
            "{",
            "",
        ),
        *(
            "const",
            "application/json",
            "readOnly",
            "integer",
            "array",
            "São Paulo",
            "x-y",
            "repeated",
            "location",
            "body",
            "file",
        ),
    ]
)
LEAVES = st.one_of(
    WORDS,
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.just(10**400),
    st.just(1e308),
    st.just(float("nan")),
    st.just(b"bytes"),
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.integers(), inner, max_size=3), max_leaves=6
)


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        found += places(value, (*path, key))
    return found


PLACES = [places(document)[1:] for document in GOOD]


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """A good document with up to three of its values replaced, moved or removed."""
    index = draw(st.integers(0, len(GOOD) - 1))
    document = copy.deepcopy(GOOD[index])
    for _ in range(draw(st.integers(1, 3))):
        *path, last = draw(st.sampled_from(PLACES[index]))
        try:
            node = document
            for key in path:
                node = node[key]
            if draw(st.booleans()):
                node[last] = draw(VALUES)
            else:
                value = node.pop(last)
                node[draw(WORDS)] = value
        except (KeyError, IndexError, TypeError, AttributeError):
            continue  # an earlier change took the place away
    return document


def check(document: Any) -> None:
    for importer in (from_openapi, from_discovery):
        try:
            imported = importer(document, "mutated")
        except DataError as error:
            assert str(error).startswith("mutated") and str(error).endswith(".")
            continue
        definitions = [json.loads(json.dumps(tool.to_json(), allow_nan=False)) for tool in imported.tools]
        for tool in load_tools(definitions, "mutated"):
            assert tool.route is not None and set(tool.route.arguments) == set(tool.properties)
            for schema in (tool.parameters, tool.output):
                assert schema is not None
                check_usable(schema, tool.name)
                fault(validator(schema), {}, "value")
        for refused in imported.refused:
            assert refused.place.startswith("#/") and refused.reason and "\n" not in refused.reason


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(mutated())
def test_a_document_changed_anywhere_is_imported_in_part_or_refused(document: Any) -> None:
    check(document)


@settings(max_examples=100)
@given(VALUES)
def test_any_value_at_all_is_imported_or_refused(document: Any) -> None:
    check(document)
    check({"openapi": "3.1.0", "paths": document})
    check({"openapi": "3.0.0", "paths": {"/a": {"get": document}}})
    check({"swagger": "2.0", "paths": {"/a": {"get": {"parameters": [document], "responses": {"200": {"schema": document}}}}}})
    check({"discoveryVersion": "v1", "methods": {"a": document}, "schemas": {"A": document}})


def answering(schema: Any, **schemas: Any) -> dict[str, Any]:
    content = {"application/json": {"schema": schema}}
    operation = {"operationId": "read", "responses": {"200": {"description": "", "content": content}}}
    good = {"operationId": "good", "responses": {"204": {"description": ""}}}
    return {"openapi": "3.1.0", "paths": {"/a": {"get": operation, "put": good}}, "components": {"schemas": schemas}}


def refused_reason(document: dict[str, Any]) -> str:
    """Why ``read`` is refused; everything else has to be imported."""
    imported = from_openapi(document, "hostile")
    assert [tool.name for tool in imported.tools] == ["good"]
    (refused,) = imported.refused
    assert (refused.place, refused.name) == ("#/paths/~1a/get", "read")
    return refused.reason


def nested(levels: int, keyword: str) -> Any:
    schema: Any = {}
    for _ in range(levels):
        schema = {keyword: [schema] if keyword == "allOf" else {"a": schema} if keyword == "properties" else schema}
    return schema


@pytest.mark.parametrize("keyword", ["items", "properties", "allOf", "not", "additionalProperties"])
def test_a_schema_as_deep_as_allowed_is_imported_and_a_deeper_one_is_refused(keyword: str) -> None:
    levels = MOST_IN_A_ROW - 1 if keyword in ("allOf", "not") else DEEPEST_SCHEMA
    check(answering(nested(levels, keyword)))
    assert len(from_openapi(answering(nested(levels, keyword)), "deep").tools) == 2
    assert "levels" in refused_reason(answering(nested(DEEPEST_SCHEMA + 1, keyword)))


@pytest.mark.parametrize("container", [list, dict])
def test_nesting_of_ten_thousand_levels_is_refused_as_a_whole(container: type) -> None:
    document: Any = {}
    for _ in range(10_000):
        document = [document] if container is list else {"properties": document}
    with pytest.raises(DataError, match=rf"deep.*{DEEPEST_DOCUMENT} levels"):
        from_openapi(answering(document), "deep")


def test_a_document_that_contains_itself_is_refused() -> None:
    document = answering({})
    document["paths"]["/a"]["get"]["more"] = document
    with pytest.raises(DataError, match="levels"):
        from_openapi(document, "endless")


def test_aliases_that_unfold_to_billions_are_refused_at_once() -> None:
    level: Any = ["lol"] * 10
    for _ in range(20):
        level = [level] * 10
    with pytest.raises(DataError, match="holds more than 20000000 values"):
        from_openapi(answering({"enum": level}), "laughs")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (float("nan"), "#/info/title is nan, which is no JSON number"),
        (float("inf"), "#/info/title is inf, which is no JSON number"),
        (10**400, "#/info/title is a number of more than 300 digits"),
        ("\ud800", "#/info/title holds broken text"),
        ({1, 2}, "#/info/title is a set, which JSON does not know"),
        ({(1,): 2}, "#/info/title is a tuple, which JSON does not know"),
    ],
)
def test_what_is_no_json_is_named_with_its_place(value: Any, problem: str) -> None:
    with pytest.raises(DataError) as error:
        from_openapi({**answering({}), "info": {"title": value}}, "strange.yaml")
    assert str(error.value).startswith(f"strange.yaml: {problem}")


@pytest.mark.parametrize(
    ("schemas", "reason"),
    [
        ({"A": {"$ref": "#/components/schemas/A"}}, "circle"),
        ({"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}}, "circle"),
        ({"A": {"allOf": [{"$ref": "#/components/schemas/A"}]}}, "without end"),
        ({"A": {"anyOf": [{"type": "string"}, {"not": {"$ref": "#/components/schemas/A"}}]}}, "without end"),
        ({"A": {"$ref": "#/components/schemas/Nowhere"}}, "has no target"),
        ({"A": {"$ref": "#/components/schemas/~2"}}, "has no target"),
        ({"A": {"$ref": "http://example.org/a.json"}}, "leaves the document"),
        ({"A": {"$ref": "#anchor"}}, "no JSON pointer"),
    ],
)
def test_a_reference_that_leads_nowhere_refuses_its_operation_alone(schemas: dict[str, Any], reason: str) -> None:
    assert reason in refused_reason(answering({"$ref": "#/components/schemas/A"}, **schemas))


def test_a_reference_to_the_whole_document_is_taken_as_a_schema_that_says_nothing() -> None:
    check(answering({"$ref": "#"}))


def test_a_long_chain_of_schemas_on_one_value_is_refused() -> None:
    chain = {f"S{index}": {"allOf": [{"$ref": f"#/components/schemas/S{index + 1}"}]} for index in range(5000)}
    assert "in a row" in refused_reason(answering({"$ref": "#/components/schemas/S0"}, **chain, S5000={}))


def test_more_definitions_than_a_tool_may_need_are_refused() -> None:
    chain = {f"S{index}": {"properties": {"next": {"$ref": f"#/components/schemas/S{index + 1}"}}} for index in range(5000)}
    assert "other schemas" in refused_reason(answering({"$ref": "#/components/schemas/S0"}, **chain, S5000={}))


def test_operations_that_need_too_many_definitions_together_are_refused_and_the_others_stay() -> None:
    chain = {
        f"S{index}": {"properties": {"next": {"$ref": f"#/components/schemas/S{(index + 1) % 1900}"}}} for index in range(1900)
    }
    document = answering({}, **chain)
    for index in range(1900):
        answer = {"200": {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/S{index}"}}}}}
        document["paths"][f"/s{index}"] = {"get": {"responses": answer}}
    imported = from_openapi(document, "wide")
    assert len(imported.tools) + len(imported.refused) == 1902
    assert len(imported.tools) == 2 + MOST_GATHERED // 1900
    assert "schemas together" in imported.refused[0].reason


def test_a_huge_enumeration_is_imported() -> None:
    values = [f"v{index}" for index in range(100_000)]
    read, _ = from_openapi(answering({"enum": values}), "large").tools
    assert read.output == {"enum": values}


@pytest.mark.parametrize(
    "document",
    [
        *(None, [], "openapi", 3, {}, {"openapi": "4.0.0", "paths": {}}, {"openapi": "3.0.0"}, {"openapi": "3.0.0", "paths": []}),
        *({"swagger": "1.2", "paths": {}}, {"openapi": {"a": 1}, "paths": {}}, {"info": {}, "paths": {}}),
    ],
)
def test_what_is_no_openapi_document_is_refused_in_one_sentence(document: Any) -> None:
    with pytest.raises(DataError, match=r"^thing\.json[^\n]*\.$"):
        from_openapi(document, "thing.json")
