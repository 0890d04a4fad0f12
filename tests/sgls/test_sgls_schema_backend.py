"""The schema backend: every value validates, by jsonschema's own word, and depends on seed and subject alone."""

import json
import random
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sgls.schema_strategies import accepts, random_schema

from slca.files import canonical_json
from slca.records import Json
from slca.sgls.backends import Request
from slca.sgls.backends.schema import SchemaBackend
from slca.sgls.validation import FORMATS, fault, validator


def fill(schema: dict[str, Any], subject: Json = "s", seed: int = 0, arguments: dict[str, Json] | None = None) -> Json:
    return SchemaBackend().fill(Request(schema, subject, arguments or {}, {}, seed))


def bounds(draw: st.DrawFn, low: str, high: str, values: st.SearchStrategy[Any]) -> dict[str, Json]:
    pair = sorted(draw(st.tuples(values, values)))
    return {key: value for key, value in zip((low, high), pair, strict=True) if draw(st.booleans())}


@st.composite
def leaves(draw: st.DrawFn) -> dict[str, Json]:
    kind = draw(
        st.sampled_from(
            ["string", "pattern", "format", "integer", "number", "multiple", "boolean", "null", "enum", "const", "types"]
        )
    )
    match kind:
        case "string":
            return {"type": "string", **bounds(draw, "minLength", "maxLength", st.integers(0, 30))}
        case "pattern":
            patterns = [
                r"^[A-Z]{3}-\d{2,4}$",
                r"^(red|blue)\w*$",
                r"a+b?",
                r"^[^0-9]+$",
                r"^\S+@x\.(com|org)$",
                r"^.{2}$",
                r"[À-ÿ]",
                r"\bkm\b",
            ]
            return {"type": "string", "pattern": draw(st.sampled_from(patterns))}
        case "format":
            return {"type": "string", "format": draw(st.sampled_from(sorted(FORMATS)))}
        case "integer":
            return {"type": "integer", **bounds(draw, "minimum", "maximum", st.integers(-1000, 1000))}
        case "number":
            open_low = draw(st.booleans())
            schema = bounds(
                draw, "exclusiveMinimum" if open_low else "minimum", "maximum", st.integers(-40, 40).map(lambda n: n / 8)
            )
            if schema.get("exclusiveMinimum") is not None and schema["exclusiveMinimum"] == schema.get("maximum"):
                del schema["maximum"]  # nothing lies between
            return {"type": "number", **schema}
        case "multiple":
            step = draw(st.sampled_from([0.25, 2, 7, 0.5]))
            return {
                "type": draw(st.sampled_from(["number", "integer"])),
                "multipleOf": step,
                "minimum": draw(st.integers(-50, 50)),
            }
        case "enum":
            return {"enum": draw(st.lists(st.sampled_from(["a", 1, None, 2.5, "東京", [1]]), min_size=1, max_size=3))}
        case "const":
            return {"const": draw(st.sampled_from(["x", 3, {"a": 1}]))}
        case "types":
            return {"type": draw(st.sampled_from([["string", "null"], ["integer", "boolean"], ["null"]]))}
        case _:
            return {"type": kind}


names = st.sampled_from(["city", "price", "bookingId", "start_date", "status", "user name", "rating", "x"])


def nodes(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    @st.composite
    def node(draw: st.DrawFn) -> dict[str, Json]:
        kind = draw(st.sampled_from(["object", "array", "tuple", "unique", "oneOf", "anyOf", "allOf", "map"]))
        match kind:
            case "object":
                properties = draw(st.dictionaries(names, inner, max_size=4))
                required = [name for name in properties if draw(st.booleans())]
                return {
                    "type": "object",
                    "properties": properties,
                    "required": required,
                    "additionalProperties": draw(st.booleans()),
                }
            case "map":
                return {"type": "object", "additionalProperties": draw(inner), "minProperties": draw(st.integers(0, 2))}
            case "array":
                return {"type": "array", "items": draw(inner), **bounds(draw, "minItems", "maxItems", st.integers(0, 4))}
            case "tuple":
                return {"type": "array", "prefixItems": draw(st.lists(inner, min_size=1, max_size=3)), "items": False}
            case "unique":
                return {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": draw(st.integers(0, 4))}
            case "oneOf":  # told apart by a tag, as output schemas do
                return {
                    "oneOf": [
                        {"type": "object", "properties": {"t": {"const": i}, "v": draw(inner)}, "required": ["t", "v"]}
                        for i in range(2)
                    ]
                }
            case "anyOf":
                return {"anyOf": draw(st.lists(inner, min_size=1, max_size=3))}
            case _:
                first, second = ({"type": "object", "properties": {n: draw(inner)}, "required": [n]} for n in ("one", "two"))
                return {"allOf": [first, second]}

    return node()


schemas = st.recursive(leaves(), nodes, max_leaves=6)


@settings(max_examples=250, deadline=None)
@given(schemas, st.integers(0, 3))
def test_values_validate(schema: dict[str, Any], seed: int) -> None:
    value = fill(schema, seed=seed)
    jsonschema.Draft202012Validator(schema).validate(value)
    canonical_json(value).encode()


@settings(max_examples=50, deadline=None)
@given(schemas)
def test_a_value_depends_on_seed_and_subject_and_not_on_the_order_of_keys(schema: dict[str, Any]) -> None:
    turned = json.loads(json.dumps(schema, sort_keys=True))
    assert fill(schema) == fill(turned) == fill(schema)


def test_seed_and_subject_change_values() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}, "price": {"type": "number"}}}
    drawn = {canonical_json(fill(schema, subject, seed)) for subject in range(10) for seed in range(10)}
    assert len(drawn) > 50


def test_a_neighbouring_property_changes_nothing() -> None:
    one = {"type": "object", "properties": {"phone": {"type": "string"}}, "required": ["phone"]}
    two = {
        "type": "object",
        "properties": {"age": {"type": "integer"}, "phone": {"type": "string"}},
        "required": ["phone", "age"],
    }
    assert fill(one)["phone"] == fill(two)["phone"]


def test_references_are_followed_and_recursion_ends() -> None:
    tree = {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
                "required": ["name", "children"],
            }
        },
    }
    chain = {
        "type": "object",
        "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
        "required": ["value", "next"],
    }
    for schema in (tree, chain):
        for seed in range(20):
            value = fill(schema, seed=seed)
            jsonschema.Draft202012Validator(schema).validate(value)
            assert len(canonical_json(value)) < 5000


@pytest.mark.parametrize(
    "schema",
    [
        {"not": {}},
        {"type": "integer", "minimum": 2, "maximum": 1},
        {"enum": []},
        {"$ref": "#"},
        {"$ref": "#/$defs/nowhere"},
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
    ],
)
def test_what_nothing_satisfies_is_answered_all_the_same(schema: dict[str, Any]) -> None:
    canonical_json(fill(schema))


@pytest.mark.parametrize(
    "schema",
    [
        {
            "if": {"properties": {"a": {"const": 1}}},
            "then": {"required": ["b"]},
            "type": "object",
            "properties": {"a": {"enum": [1, 2]}, "b": {}},
        },
        {"type": "array", "contains": {"const": 7}, "items": {"type": "integer"}},
        {"type": "object", "properties": {"a": {}, "b": {}}, "not": {"required": ["a", "b"]}},
        {"type": "object", "patternProperties": {"^x": {"type": "integer"}}, "required": ["x1"], "additionalProperties": False},
        {"type": "object", "properties": {"a": {}}, "required": ["a"], "dependentRequired": {"a": ["b"]}},
        {"type": "integer", "allOf": [{"minimum": 3}, {"maximum": 3}]},
        {"type": "number", "allOf": [{"type": "integer"}]},
        {"type": "number", "exclusiveMinimum": 0.1, "exclusiveMaximum": 0.2},
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "array",
            "items": [{"type": "string"}, {"type": "integer"}],
            "minItems": 2,
        },
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "$ref": "#/definitions/a",
            "definitions": {"a": {"type": "integer"}},
        },
    ],
)
def test_less_usual_keywords(schema: dict[str, Any]) -> None:
    validator = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)(schema)
    for seed in range(10):
        validator.validate(fill(schema, seed=seed))


def test_a_property_named_like_an_argument_takes_its_value_if_it_may() -> None:
    schema = {"type": "object", "properties": {"timezone": {"type": "string"}, "count": {"type": "integer"}}}
    value = fill(schema, arguments={"timezone": "Asia/Tokyo", "count": "many"})
    assert value["timezone"] == "Asia/Tokyo" and isinstance(value["count"], int)


def test_an_array_does_without_items_that_nothing_satisfies() -> None:
    either = {"oneOf": [{"type": "object", "properties": {"a": {}}}, {"type": "object", "properties": {"b": {}}}]}
    assert fill({"type": "object", "properties": {"files": {"type": "array", "items": either}}, "required": ["files"]}) == {
        "files": []
    }
    assert fill({"type": "array", "items": either, "minItems": 1}) is None


def test_values_are_short_and_plausible() -> None:
    schema = {
        "type": "object",
        "properties": {"destinationCity": {"type": "string"}, "rating": {"type": "integer"}, "result": {"type": "string"}},
    }
    for seed in range(30):
        value = fill(schema, seed=seed)
        assert value["destinationCity"].istitle() and 1 <= value["rating"] <= 5 and len(value["result"]) <= 12


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": r"^\p{L}+$"},
        {"type": "string", "pattern": r"^[\p{Lu}_]{3}\/\p{Nd}$"},
        {"type": "string", "pattern": r"^\p{Script=Greek}{2,}$"},
        {"type": "string", "pattern": r"^(?=.*[A-Z])(?=.*\d).{8,}$"},
        {"type": "string", "pattern": r"^(?!0)\d{2}$"},
        {"type": "string", "format": "email", "maxLength": 10},
        {"type": "string", "format": "uri", "minLength": 60},
        {"type": "string", "format": "date", "pattern": "-07-"},
        {"allOf": [{"pattern": "^[a-z]+$"}, {"pattern": "^.{3}$"}, {"pattern": "e"}], "type": "string", "maxLength": 5},
    ],
)
def test_formats_patterns_and_lengths_are_met_together(schema: dict[str, Any]) -> None:
    for seed in range(10):
        assert fault(validator(schema), fill(schema, seed=seed), "x") is None


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": [1, "a", "bb", 2], "type": "string", "minLength": 2},
        {"allOf": [{"enum": [1, 2, 3]}, {"enum": [3, 4]}, {"not": {"const": 4}}]},
        {"$ref": "#/$defs/a", "minimum": 5, "$defs": {"a": {"type": "integer", "maximum": 5}}},
        {"allOf": [{"multipleOf": 4}, {"multipleOf": 6}], "type": "integer", "minimum": 1, "maximum": 13},
        {"type": "integer", "not": {"minimum": -1000}},
        {"not": {"type": ["string", "object", "array", "null"]}},
        {
            "allOf": [
                {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False},
                {"type": "object", "properties": {"a": {"minimum": 7}, "b": {}}, "required": ["a"]},
            ]
        },
        {
            "type": "object",
            "properties": {"a": {}, "b": {"type": "integer"}},
            "required": ["a"],
            "dependentSchemas": {"a": {"required": ["b"], "properties": {"b": {"minimum": 500}}}},
        },
        {"type": "object", "required": ["a"], "dependentRequired": {"a": ["b"], "b": ["c"]}, "properties": {"a": {}}},
        {"type": "object", "minProperties": 3, "propertyNames": {"pattern": "^x[0-9]$"}},
        {"type": "object", "minProperties": 2, "patternProperties": {"^y[a-z]$": {"const": 1}}, "additionalProperties": False},
        {"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": True, "minItems": 3},
        {
            "type": "array",
            "items": {"type": "integer"},
            "contains": {"const": 7},
            "minContains": 2,
            "maxContains": 2,
            "minItems": 4,
        },
        {"type": "array", "prefixItems": [{"const": 7}, {"type": "string"}], "items": False, "contains": {"const": 7}},
        {"if": {"required": ["a"]}, "then": {"properties": {"a": {"const": 1}}}, "else": False, "type": "object"},
        {
            "oneOf": [{"type": "integer", "maximum": 60}, {"type": "integer", "minimum": 40}, {"const": "x"}],
            "not": {"const": "x"},
        },
    ],
)
def test_keywords_that_work_together(schema: dict[str, Any]) -> None:
    for seed in range(10):
        jsonschema.Draft202012Validator(schema).validate(fill(schema, seed=seed))


def test_multiples_suit_validators_that_divide_floats() -> None:
    for seed in range(50):
        value = fill({"type": "number", "multipleOf": 0.1}, seed=seed)
        assert (value / 0.1).is_integer() and fault(validator({"multipleOf": 0.1}), value, "x") is None


def test_a_value_is_found_for_all_but_few_satisfiable_schemas() -> None:
    found = 0
    for seed in range(300):
        schema, _ = random_schema(random.Random(seed))
        found += accepts(schema, fill(schema, seed=seed))  # at the first time of asking; the simulator asks four times
    assert found >= 294
