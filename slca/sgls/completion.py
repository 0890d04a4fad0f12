"""From what a behaviour found to what the output schema promises: listed properties only, missing required ones filled in.

Filled values depend on the record's entity and id, not on the tool that shows it: two tools that show the same record agree.
"""

from collections.abc import Callable
from typing import Any

from slca.records import Json
from slca.sgls.tool import Tool

Fill = Callable[[dict[str, Any], Json, dict[str, Json], Json], Json]
"""(schema, subject, arguments, record) -> a value that validates against ``schema``; see ``slca.sgls.backends.Request``."""


def completed(tool: Tool, result: dict[str, Json], arguments: dict[str, Json], fill: Fill) -> dict[str, Json]:
    """A behaviour's result cut to what the output schema lists, required values filled in; found records likewise."""
    output: dict[str, Any] = tool.output or {}
    behaviour = tool.behaviour
    subject: Json = [tool.name, arguments]
    if behaviour is not None and behaviour.kind == "search":
        key = str(behaviour.result)
        items = output.get("properties", {}).get(key, {}).get("items")
        if isinstance(items, dict):
            subjects = [[behaviour.entity, record[str(behaviour.id_field)]] for record in result[key]]
            pairs = zip(result[key], subjects, strict=True)
            result = {**result, key: [_cut(items, record, about, arguments, output, fill) for record, about in pairs]}
    elif behaviour is not None and behaviour.kind != "compute":
        subject = [behaviour.entity, result[str(behaviour.id_field)]]
    return _cut(output, result, subject, arguments, output, fill)


def _cut(
    schema: dict[str, Any], record: dict[str, Json], subject: Json, arguments: dict[str, Json], root: dict[str, Any], fill: Fill
) -> dict[str, Json]:
    """The properties of ``record`` that ``schema`` lists (all if it lists none), missing required ones filled in."""
    listed: dict[str, Json] = schema.get("properties", {})
    if not listed:
        return record
    missing = [name for name in schema.get("required", ()) if name in listed and name not in record]
    filled = {}
    if missing:
        # Definitions travel along, so that references in the properties still lead somewhere.
        wanted: dict[str, Any] = {key: root[key] for key in ("$schema", "$defs", "definitions") if key in root}
        wanted |= {"type": "object", "properties": {name: listed[name] for name in missing}, "required": missing}
        filled = fill(wanted, subject, arguments, record)
    return {name: record[name] if name in record else filled[name] for name in listed if name in record or name in filled}
