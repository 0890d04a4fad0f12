"""Validation: ECMA patterns, exact numbers, the same verdicts as jsonschema otherwise, and schemas that are refused by name."""

import random
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sgls.schema_strategies import accepts, random_schema, random_value

from slca.errors import ToolError
from slca.records import Json
from slca.sgls.regexes import BadPattern, TooCostly, compiled_pattern, finds
from slca.sgls.validation import check_schema, check_usable, fault, limited, unfit, validator


@pytest.mark.parametrize(
    ("pattern", "accepted", "refused"),
    [
        (r"^[\w-]+$", ["a-b", "_"], ["a b", "é", ""]),
        (r"^\p{L}+$", ["Zürich", "東京"], ["a1", ""]),
        (r"^[\p{Lu}\d]\P{L}$", ["Ä1", "5-"], ["ä1", "AB"]),
        (r"^\d+$", ["2026"], ["٣", "3\n"]),
        (r"a\/b", ["xa/by"], ["a\\/b"]),
        (r"^a$", ["a"], ["a\n", "ba"]),
        (r"^\u00e9\x41\u{1F600}\t$", ["éA😀\t"], ["eA😀\t"]),
        (r"^(?<y>\d{4})-\k<y>$", ["2026-2026"], ["2026-2027"]),
        (r"^x{a}$", ["x{a}"], ["xa"]),
        (r"^[^]$", ["\n", "x"], [""]),
        (r"[]", [], ["", "x"]),
        (r"^[[\]]+$", ["[]"], ["()"]),
        (r"^\cA\0$", ["\x01\0"], ["cA0"]),
        (r"^(?=.*\d)(?!.*\s)\S{8,}$", ["abcdefg1"], ["abcdefgh", "abc def1"]),
        (r"(?i)^abc\Z", ["ABC"], ["ABC\n"]),
        (r"^\-\_\#\@\e$", ["-_#@e"], ["\\-"]),
    ],
)
def test_patterns_are_read_as_json_schema_says(pattern: str, accepted: list[str], refused: list[str]) -> None:
    compiled = validator({"type": "string", "pattern": pattern})
    assert [fault(compiled, text, "x") for text in accepted] == [None] * len(accepted)
    assert all("must match the pattern" in str(fault(compiled, text, "x")) for text in refused)
    named = validator({"type": "object", "patternProperties": {pattern: {}}, "additionalProperties": False})
    assert [fault(named, {text: 1}, "x") is None for text in accepted + refused] == [True] * len(accepted) + [False] * len(
        refused
    )


@pytest.mark.parametrize(
    "pattern", ["(", ")", "[", "*", "\\", "(?R)", "(?|a)", "[z-a]", r"\p{Nonsense}", "a(?i)b", "a{3,1}", r"\u{110000}"]
)
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        compiled_pattern(pattern)
    with pytest.raises(ToolError, match="pattern"):
        check_usable({"type": "object", "properties": {"a": {"pattern": pattern}}}, "here")


@given(st.text(st.sampled_from("ab0-^$.*+?|()[]{}\\/dwpLu1,<>=!:&~ "), max_size=12), st.text(max_size=8))
def test_any_text_is_a_pattern_or_a_bad_pattern(pattern: str, text: str) -> None:
    try:
        finds(pattern, text)
    except (BadPattern, TooCostly):
        return


@pytest.mark.parametrize(
    ("step", "multiples", "others"),
    [
        (0.1, [0.3, 0.7, 1, -2.5, 0], [0.35, 1e-3]),
        (0.01, [19.99, 4.35, 1e20], [19.999]),
        (3, [0, 9, -3, 3.0, 3 * 10**300], [1, 2.5, 10**300]),
        (1e-300, [5e-300, 1e300], [5e-301]),
        (1e308, [0, 10**308], [1e307, 1]),
    ],
)
def test_multiples_are_decimal_and_exact(step: float, multiples: list[float], others: list[float]) -> None:
    compiled = validator({"multipleOf": step})
    assert [fault(compiled, value, "x") for value in multiples] == [None] * len(multiples)
    assert all(fault(compiled, value, "x") for value in others)


def test_equal_means_json_equal() -> None:
    enum = validator({"enum": [1, "a", None, [1, {"b": 2, "c": False}], 0.5]})
    for value in (1, 1.0, "a", None, [1.0, {"c": False, "b": 2}], 0.5):
        assert fault(enum, value, "x") is None
    for value in (True, "1", 0, False, [1, {"b": 2, "c": 0}], [1]):
        assert fault(enum, value, "x")
    unique = validator({"uniqueItems": True})
    assert fault(unique, [1, True, "1", [1], [True], {}, [], None, 0, False], "x") is None
    assert fault(unique, [1, 1.0], "x") and fault(unique, [{"a": 1, "b": 2}, {"b": 2, "a": 1.0}], "x")


def _value_near(rng: random.Random, witness: Json) -> Json:
    """The value that a schema was built around, or one that differs a little, or any other."""
    if rng.random() < 0.3 or not isinstance(witness, dict | list) or not witness:
        return random_value(rng, 2)
    if isinstance(witness, list):
        return [*witness[1:], random_value(rng, 1)]
    changed = dict(witness)
    changed[rng.choice([*witness, "city"])] = random_value(rng, 1)
    return changed


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_verdicts_are_those_of_jsonschema(seed: int) -> None:
    rng = random.Random(seed)
    schema, witness = random_schema(rng)
    compiled = validator(schema)
    assert fault(compiled, witness, "x") is None
    other = _value_near(rng, witness)
    told = fault(compiled, other, "x")
    assert (told is None) == accepts(schema, other)
    assert told is None or (told.endswith(".") and len(told) <= 160)


@pytest.mark.parametrize(
    "draft", ["draft-03/schema#", "draft-04/schema#", "draft-06/schema#", "draft-07/schema#", "draft/2019-09/schema"]
)
def test_every_draft_has_the_bounded_keywords(draft: str) -> None:
    base = "https://json-schema.org/" if "2019" in draft else "http://json-schema.org/"
    compiled = validator(
        {"$schema": base + draft, "additionalProperties": {"pattern": "^(a|a)*$"}, "patternProperties": {"^x": {}}}
    )
    assert fault(compiled, {"x": 1, "b": "aa"}, "v") is None
    with pytest.raises(TooCostly):
        fault(compiled, {"b": "a" * 40 + "!"}, "v")


def test_a_draft_named_below_the_top_does_not_lift_the_limits() -> None:
    inner = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "properties": {"$schema": {"const": 1}},
        "pattern": "^(a|a)*$",
    }
    compiled = validator({"properties": {"a": inner}})
    with pytest.raises(TooCostly):
        fault(compiled, {"a": "a" * 40 + "!"}, "v")
    assert fault(compiled, {"a": {"$schema": 2}}, "v") == "a.$schema must be 1."


def test_checks_within_one_block_share_the_time_for_matching() -> None:
    compiled = validator({"pattern": "^(a|a)*$"})
    with limited():
        with pytest.raises(TooCostly):
            fault(compiled, "a" * 40 + "!", "v")
        with pytest.raises(TooCostly):  # nothing is left of it: the next one is not given another half second
            fault(compiled, "a" * 25 + "!", "v")
    assert fault(compiled, "a" * 10 + "!", "v") is not None


def test_a_recursive_schema_checks_a_deep_value() -> None:
    node = {"type": "object", "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}}}
    compiled = validator(node)
    leaf: dict[str, Json] = {"name": "leaf"}
    value: dict[str, Json] = {"children": [leaf, leaf, {"children": [leaf]}]}  # one object at many places is no circle
    wrong: dict[str, Json] = {"name": 5}
    for _ in range(28):
        value, wrong = {"children": [value]}, {"children": [wrong]}
    assert unfit(value) is None and fault(compiled, value, "v") is None
    assert str(fault(compiled, wrong, "v")).endswith("name must be of type string, not integer.")


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "strang"}, r"here.*at type"),
        ({"properties": {"a": {"minimum": "1"}}}, r"here.*at properties/a/minimum"),
        ({"$schema": {"a": 1}}, "no URI"),
        ({"$schema": "http://["}, "no URI"),
        ({"properties": {"a": {"pattern": "("}}}, "pattern"),
        ({"maximum": float("inf")}, "no JSON"),
    ],
)
def test_what_is_no_schema_is_refused_with_its_place(schema: dict[str, Any], told: str) -> None:
    with pytest.raises(ToolError, match=told):
        check_schema(schema, "here")


def test_good_schemas_of_any_dialect_pass() -> None:
    for schema in (
        {"type": "object", "properties": {"a": {"pattern": r"^\p{L}+\/[\w-]+$"}}},
        {"type": "object", "properties": {"$schema": {"type": "string"}, "pattern": {"type": "string"}}},
        {"$schema": "https://example.org/own-dialect", "type": "object"},
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"type": "object", "default": {"pattern": "("}, "examples": [{"$ref": "nowhere"}]},
        jsonschema.Draft7Validator.META_SCHEMA,
    ):
        check_schema(schema, "here")
        check_usable(schema, "here")


def test_limits_count_keys_and_values_together() -> None:
    assert unfit({"a" * 500_000: "b" * 500_000}) is None
    assert "characters" in str(unfit({"a" * 600_000: "b" * 500_000}))
    assert unfit([[0] * 49_998] * 2) is None
    assert "values" in str(unfit([[0] * 50_000] * 2))
    assert unfit(True) is unfit(None) is unfit({}) is unfit([[[]]]) is None
