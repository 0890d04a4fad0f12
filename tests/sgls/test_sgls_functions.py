"""Function lists in every form that chat APIs take them."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slca.errors import DataError
from slca.files import canonical_json
from slca.sgls.importers.functions import from_functions
from slca.sgls.tool import NAME_PATTERN
from slca.sgls.validation import DEEPEST_SCHEMA

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WORDS = {"name": "get_weather", "description": "Weather in São Paulo or 東京."}


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "function", "function": {**WORDS, "parameters": PARAMETERS, "strict": True}},
        {"type": "function", **WORDS, "parameters": PARAMETERS, "strict": True},
        {**WORDS, "parameters": PARAMETERS},
        {**WORDS, "input_schema": PARAMETERS},
        {"type": "custom", **WORDS, "input_schema": PARAMETERS},
        {**WORDS, "parameters": {key: value for key, value in PARAMETERS.items() if key != "type"}},
    ],
)
def test_every_form_of_an_entry_is_the_same_tool(entry: dict[str, Any]) -> None:
    for document in ([entry], {"model": "some-model", "tools": [entry]}, {"functions": [entry]}):
        (tool,) = from_functions(document, "mine").tools
        assert (tool.name, tool.description, tool.parameters) == (WORDS["name"], WORDS["description"], PARAMETERS)
        assert (tool.domain, tool.source, tool.output) == ("mine", "functions:mine", None)


def test_arguments_keep_the_order_that_their_author_gave_them() -> None:
    properties = {name: {"type": "string"} for name in ("zeta", "alpha", "midst")}
    (tool,) = from_functions([{"name": "f", "parameters": {"properties": properties}}], "mine").tools
    assert list(tool.properties) == ["zeta", "alpha", "midst"]


@pytest.mark.parametrize("parameters", [{}, {"parameters": None}, {"parameters": {}}])
def test_a_function_without_parameters_takes_no_arguments(parameters: dict[str, Any]) -> None:
    (tool,) = from_functions([{"name": "now", **parameters}], "mine").tools
    assert tool.parameters == {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("bad", "name", "reason"),
    [
        ({"type": "web_search"}, "web_search", "'web_search' is no function"),
        ({"type": "custom", "name": "free_text"}, "free_text", "'custom' is no function"),
        ("get_weather", "", "an object"),
        ({"name": 7}, "", "a name"),
        ({"type": "function", "function": {"description": "Nameless."}}, "", "a name"),
        ({"name": "b", "parameters": "city"}, "b", "no schema"),
        ({"name": "b", "parameters": {"type": "dict"}}, "b", "JSON Schema"),
        ({"name": "b", "parameters": {"type": "object", "properties": {"x": {"$ref": "#/$defs/x"}}}}, "b", "has no target"),
        ({"name": "b", "parameters": {"type": "object", "properties": {"x": {"pattern": "a{99999999999}"}}}}, "b", "pattern"),
        ({"name": "b", "parameters": {"type": "object", "default": float("nan")}}, "b", "no JSON"),
        ({"name": "b", "description": "\ud800"}, "b", "no JSON"),
        ({"name": "a"}, "a", "occurs twice, first at #/tools/0"),
    ],
)
def test_what_is_no_usable_function_is_refused_with_its_place_and_the_rest_imported(bad: Any, name: str, reason: str) -> None:
    imported = from_functions({"tools": [{"name": "a"}, bad, {"name": "c"}]}, "mine")
    assert [tool.name for tool in imported.tools] == ["a", "c"]
    (refused,) = imported.refused
    assert (refused.place, refused.name) == ("#/tools/1", name) and reason in refused.reason


def test_refusals_come_in_the_documents_order() -> None:
    bad = [{"name": "x", "parameters": {"type": "dict"}}, {"type": "web_search"}, {"name": "y", "parameters": {"type": "dict"}}]
    assert [refused.place for refused in from_functions(bad, "mine").refused] == ["#/0", "#/1", "#/2"]


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"anyOf": [schema]}
    return {"type": "object", **schema}


def test_a_schema_that_is_nested_too_deeply_is_refused_and_one_below_the_limit_is_not() -> None:
    half = DEEPEST_SCHEMA // 2  # a level of anyOf is two of JSON
    imported = from_functions(
        [{"name": "flat", "parameters": nested(half)}, {"name": "deep", "parameters": nested(half + 1)}], "mine"
    )
    assert [tool.name for tool in imported.tools] == ["flat"]
    assert [(refused.name, "levels deep" in refused.reason) for refused in imported.refused] == [("deep", True)]
    (endless,) = from_functions([{"name": "endless", "parameters": nested(5000)}], "mine").refused
    assert "nested too deeply" in endless.reason


@pytest.mark.parametrize("document", [{}, None, "tools", {"tools": {}}, {"model": "some-model"}])
def test_what_is_no_list_is_an_error_that_names_it(document: Any) -> None:
    with pytest.raises(DataError, match="mine"):
        from_functions(document, "mine")


@settings(max_examples=60)
@given(st.lists(st.text(min_size=1, max_size=80), max_size=12))
def test_any_names_become_safe_and_distinct_ones_that_lead_back(names: list[str]) -> None:
    imported = from_functions([{"name": name} for name in names], "mine")
    distinct = list(dict.fromkeys(names))
    assert [tool.original or tool.name for tool in imported.tools] == distinct
    safe = [tool.name for tool in imported.tools]
    assert len(set(safe)) == len(safe) and all(NAME_PATTERN.fullmatch(name) for name in safe)
    assert len(imported.refused) == len(names) - len(distinct)
    again = from_functions([{"name": name} for name in names], "mine")
    assert canonical_json([tool.to_json() for tool in again.tools]) == canonical_json([tool.to_json() for tool in imported.tools])
