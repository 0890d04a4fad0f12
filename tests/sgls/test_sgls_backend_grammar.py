"""Schemas in the words of the grammar engine: joined where they were in parts, untouched where they were plain, never endless."""

import json

from hypothesis import given
from hypothesis import strategies as st

from slca.records import Json
from slca.sgls.backends.grammar_schema import MOST_JOINED, for_grammar


def test_parts_become_one_schema() -> None:
    schema = {
        "allOf": [
            {"$ref": "#/$defs/base"},
            {"properties": {"b": {"type": "string", "maxLength": 9}}, "required": ["b"], "minProperties": 1},
        ],
        "description": "both",
        "$defs": {"base": {"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"], "minProperties": 2}},
    }
    assert for_grammar(schema) == {
        "$ref": "#/$defs/slca-joined-0",
        "$defs": {
            "base": schema["$defs"]["base"],
            "slca-joined-0": {
                "type": "object",
                "properties": {"a": {"type": "null"}, "b": {"type": "string", "maxLength": 9}},
                "required": ["a", "b"],
                "minProperties": 2,
            },
        },
    }


def test_the_stricter_bound_and_the_common_types_and_values_stay() -> None:
    parts = [
        {"type": ["number", "null"], "minimum": 1, "maximum": 9, "enum": [2, 3, None]},
        {"type": ["integer", "null"], "minimum": 2, "maximum": 8, "enum": [3, None, 4]},
    ]
    joined = for_grammar({"allOf": parts})["$defs"]["slca-joined-0"]
    assert joined == {"type": ["null", "integer"], "minimum": 2, "maximum": 8, "enum": [3, None]}


def test_recursion_through_parts_stays_recursion() -> None:
    node = {"allOf": [{"$ref": "#/$defs/node"}, {"minProperties": 1}]}
    schema = {"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"next": node}}}}
    new = for_grammar(schema)
    assert new["$defs"]["slca-joined-0"]["properties"]["next"] == {"$ref": "#/$defs/slca-joined-0"}
    for circle in ({"allOf": [{"$ref": "#"}]}, {"$ref": "#", "minLength": 1}, {"anyOf": [{"$ref": "#"}], "type": "object"}):
        json.dumps(for_grammar(circle))


def test_a_thicket_of_choices_ends() -> None:
    schema: dict[str, Json] = {"type": "object"}
    for n in range(12):
        schema = {"anyOf": [schema, {"required": [f"a{n}"]}, {"$ref": "#"}], "properties": {f"p{n}": {"$ref": "#"}}}
    assert len(for_grammar(schema).get("$defs", {})) <= MOST_JOINED


plain = st.recursive(
    st.sampled_from([{"type": "string", "maxLength": 3}, {"type": "integer", "minimum": 1}, {"enum": ["a", 1]}, {}, True]),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"anyOf": parts}),
        st.dictionaries(st.sampled_from(["allOf", "$ref", "enum", "items"]), inner, max_size=3).map(
            lambda properties: {"type": "object", "properties": properties, "required": sorted(properties)}
        ),
    ),
    max_leaves=8,
)


@given(plain, plain)
def test_what_is_plain_is_left_alone_whatever_its_properties_are_called(schema: Json, definition: Json) -> None:
    assert for_grammar(schema) == schema
    if isinstance(schema, dict):
        with_definitions = {**schema, "$defs": {"d": definition}}
        assert for_grammar(with_definitions) == with_definitions
