"""The schema languages of OpenAPI 3.0 and Google Discovery, one level at a time, in the words of JSON Schema 2020-12.

Each dialect is a pure function from one schema object to another whose own keywords are 2020-12; the schemas inside it stay as
they were, since ``slca.sgls.importers.schemas`` walks them.
"""

import re
from collections.abc import Callable

from slca.records import Json

Dialect = Callable[[dict[str, Json]], dict[str, Json]]

_GOOGLE_FORMATS = {"google-datetime": "date-time"}
_WHOLE_NUMBER = "^-?[0-9]{1,19}$"
_BOUNDS = ("minimum", "maximum")
_NUMBERS = ("integer", "number")


def openapi_31(schema: dict[str, Json]) -> dict[str, Json]:
    """OpenAPI 3.1, which is 2020-12 but for ``example``; documents that still use the words of 3.0 are understood too."""
    new = dict(schema)
    if "example" in new:
        new.setdefault("examples", [new.pop("example")])
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(new.get(exclusive), bool) and new.pop(exclusive) and bound in new:
            new[exclusive] = new.pop(bound)
    nullable = new.pop("nullable", False) is True
    return _or_null(new) if nullable else new


def openapi_30(schema: dict[str, Json]) -> dict[str, Json]:
    """OpenAPI 3.0: ``nullable``, boolean exclusive bounds, ``example``; a reference stands alone.

    Swagger 2.0 is close enough to pass through here; it has ``type: file``, and many write ``x-nullable``.
    """
    if isinstance(schema.get("$ref"), str):
        return {"$ref": schema["$ref"]}
    new = openapi_31(schema)
    if new.get("type") == "file":
        new |= {"type": "string", "format": "binary"}
    return _or_null(new) if new.pop("x-nullable", False) is True else new


def _or_null(schema: dict[str, Json]) -> dict[str, Json]:
    """``schema``, and null. Where it has no type there is nothing to add to, unless it is a choice or a reference."""
    kinds = schema.get("type")
    if kinds is None:
        return {"anyOf": [schema, {"type": "null"}]} if schema.keys() & {"allOf", "anyOf", "oneOf", "$ref"} else schema
    new = {**schema, "type": [*(kinds if isinstance(kinds, list) else [kinds]), "null"]}
    if isinstance(new.get("enum"), list) and None not in new["enum"]:
        new["enum"] = [*new["enum"], None]
    return new


def discovery(schema: dict[str, Json]) -> dict[str, Json]:
    """References by name, ``repeated``, ``type: any``, numbers that travel as strings, bounds and defaults written as text."""
    if isinstance(schema.get("$ref"), str):
        name = schema["$ref"].replace("~", "~0").replace("/", "~1")
        kept: dict[str, Json] = {key: schema[key] for key in ("description", "readOnly") if key in schema}
        return {"$ref": f"#/schemas/{name}", **kept}
    new = {key: value for key, value in schema.items() if key not in ("repeated", "required", "id")}
    kind = new.get("type")
    if kind == "any":
        del new["type"]
    form = new.get("format")
    if isinstance(form, str):
        new["format"] = _GOOGLE_FORMATS.get(form, form)
        if kind == "string" and form in ("int64", "uint64"):
            new.setdefault("pattern", _WHOLE_NUMBER)
    for bound in _BOUNDS:
        if bound in new and kind not in _NUMBERS:
            del new[bound]
        elif isinstance(new.get(bound), str):
            new[bound] = _number(new[bound])
    if isinstance(new.get("default"), str) and kind != "string":
        new["default"] = {"true": True, "false": False}.get(new["default"], _number(new["default"]))
    if schema.get("repeated") is True:
        whole: dict[str, Json] = {"type": "array", "items": new}
        whole |= {key: new.pop(key) for key in ("description", "readOnly") if key in new}
        if "default" in new:
            whole["default"] = [new.pop("default")]
        return whole
    return new


def _number(text: str) -> Json:
    """The number that ``text`` spells, ``text`` itself where it spells none."""
    if re.fullmatch(r"-?[0-9]{1,19}", text):
        return int(text)
    return float(text) if re.fullmatch(r"-?[0-9]{1,19}[.][0-9]{1,19}", text) else text
