"""Definitions of tools: what is wrong with one is a sentence that names the place, whatever Python itself would say."""

from typing import Any

import pytest

from slca.errors import ToolError
from slca.sgls.tool import load_tool


def definition(**schema: Any) -> dict[str, Any]:
    return {"name": "find", "parameters": {"type": "object", **schema}}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        (definition(properties={"a": {"pattern": "a{99999999999}"}}), "parameters: the pattern 'a{99999999999}' cannot be used"),
        (definition(**nested(200)), "parameters: the schema is nested more than"),
        (definition(**nested(100_000)), "nested too deeply"),
        (definition(properties={"a": {"type": "strang"}}), "at properties/a/type: 'strang'"),
        (definition(**{"$defs": {"pet": {"properties": {"a": {"type": "strang"}}}}}), "at $defs/pet/properties/a/type: 'strang'"),
        (definition(**{"$defs": {"pet": 3}}), "at $defs/pet: 3"),
        (definition(**{"$defs": 3}), "at $defs: 3"),
        (definition(default={1, 2}), "is no JSON"),
        (definition() | {"colour": "red"}, "field colour"),
        (definition() | {"name": "no name"}, "a name has 1 to 64"),
        ({"name": "find", "parameters": {"type": "array"}}, "must be a schema of type 'object', not 'array'"),
    ],
)
def test_what_is_wrong_with_a_definition_is_told_with_its_place(bad: dict[str, Any], fault: str) -> None:
    with pytest.raises(ToolError) as raised:
        load_tool(bad, "shop.yaml")
    assert fault in str(raised.value) and str(raised.value).startswith(f"shop.yaml: tool {bad['name']!r}: ")


def test_a_definition_seen_before_is_told_with_its_own_place_and_keeps_its_order() -> None:
    for where in ("a.yaml", "b.yaml", "a.yaml"):
        with pytest.raises(ToolError, match=f"^{where}: "):
            load_tool(definition(type="array"), where)
    for names in (["a", "b"], ["b", "a"]):
        properties = {name: {"type": "string"} for name in names}
        assert list(load_tool(definition(properties=properties), "x").properties) == names
