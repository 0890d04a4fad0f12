"""JSON Schemas moved into a larger document: references that start at the schema's root must start at its new place."""

from slca.records import Json

_VALUES = ("const", "enum", "default", "examples")
"""Keywords that hold plain values, in which nothing is a reference."""


def relocated(schema: Json, place: str) -> Json:
    """``schema`` for the place that the JSON pointer ``place`` names, such as ``#/components/schemas/pet``."""
    if isinstance(schema, list):
        return [relocated(item, place) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _moved(key, value, place) for key, value in schema.items()}


def _moved(key: str, value: Json, place: str) -> Json:
    if key == "$ref" and isinstance(value, str):
        return place + value[1:] if value.startswith("#") else value
    return value if key in _VALUES else relocated(value, place)
