"""Schema words of OpenAPI 3.0 and Discovery in those of JSON Schema 2020-12, one level at a time."""

from typing import Any

import pytest

from slca.sgls.importers.dialects import discovery, openapi_30, openapi_31

REF = {"$ref": "#/components/schemas/A"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": False}, {"type": "string"}),
        ({"type": "string", "enum": ["a"], "nullable": True}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"allOf": [REF], "nullable": True}, {"anyOf": [{"allOf": [REF]}, {"type": "null"}]}),
        ({"nullable": True}, {}),
        ({"type": "string", "x-nullable": True}, {"type": ["string", "null"]}),
        ({**REF, "nullable": True, "description": "ignored, as 3.0 says"}, REF),
        ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
        ({"minimum": 1, "exclusiveMinimum": False}, {"minimum": 1}),
        ({"maximum": 1, "exclusiveMaximum": True}, {"exclusiveMaximum": 1}),
        ({"exclusiveMaximum": True}, {}),
        ({"example": 3}, {"examples": [3]}),
        ({"type": "file"}, {"type": "string", "format": "binary"}),
    ],
)
def test_openapi_3_0(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert openapi_30(old) == new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"type": ["string", "null"], "exclusiveMinimum": 3}, {"type": ["string", "null"], "exclusiveMinimum": 3}),
        ({**REF, "description": "kept"}, {**REF, "description": "kept"}),
        ({"example": 3, "examples": [4]}, {"examples": [4]}),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({**REF, "nullable": True}, {"anyOf": [REF, {"type": "null"}]}),
    ],
)
def test_openapi_3_1_with_words_of_3_0_that_documents_still_have(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert openapi_31(old) == new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"$ref": "A/b", "description": "d"}, {"$ref": "#/schemas/A~1b", "description": "d"}),
        ({"type": "any"}, {}),
        ({"type": "string", "format": "int64"}, {"type": "string", "format": "int64", "pattern": "^-?[0-9]{1,19}$"}),
        ({"type": "string", "format": "google-datetime"}, {"type": "string", "format": "date-time"}),
        ({"type": "integer", "minimum": "1", "default": "10"}, {"type": "integer", "minimum": 1, "default": 10}),
        ({"type": "number", "maximum": "0.5"}, {"type": "number", "maximum": 0.5}),
        ({"type": "string", "minimum": "1", "default": "10"}, {"type": "string", "default": "10"}),
        ({"type": "boolean", "default": "false"}, {"type": "boolean", "default": False}),
        ({"type": "number", "default": "nan"}, {"type": "number", "default": "nan"}),
        (
            {"type": "string", "repeated": True, "description": "d", "enum": ["a"], "default": "a"},
            {"type": "array", "items": {"type": "string", "enum": ["a"]}, "description": "d", "default": ["a"]},
        ),
    ],
)
def test_discovery(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert discovery(old) == new
