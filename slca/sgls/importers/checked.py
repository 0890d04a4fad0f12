"""Tools of a list, checked one by one: safe names, usable schemas, and for each one that fails its place and the reason.

Shared by the importers whose sources list tools as such (MCP, function lists, callables, released rows).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from slca.errors import ToolError
from slca.records import Json
from slca.sgls import validation
from slca.sgls.behaviours import check_behaviour
from slca.sgls.importers.base import Imported, Refused
from slca.sgls.importers.names import tool_names
from slca.sgls.tool import Tool, load_tool

NO_ARGUMENTS: dict[str, Json] = {"type": "object", "properties": {}, "additionalProperties": False}


@dataclass(frozen=True)
class Found:
    """A tool as its source has it. definition: fields of ``slca.sgls.tool.Tool`` but for the name, not yet checked."""

    place: str
    name: str
    definition: dict[str, Json]


def checked_tools(entries: Sequence[Found | Refused], source: str) -> Imported:
    """The tools that can be used and the entries that cannot, in order; ``source`` is the tools' domain.

    A name that is none for chat formats is replaced and kept in ``original``. A name that occurs again is refused. A tool whose
    output schema cannot be used is imported without one, with a note.
    """
    first: dict[str, Found] = {}
    for entry in entries:
        if isinstance(entry, Found):
            first.setdefault(entry.name, entry)
    names = dict(zip(first, tool_names(list(first)), strict=True))
    tools: list[Tool] = []
    refused: list[Refused] = []
    notes: list[Refused] = []
    for entry in entries:
        if isinstance(entry, Refused):
            refused.append(entry)
            continue
        if first[entry.name] is not entry:
            refused.append(Refused(entry.place, entry.name, f"the name occurs twice, first at {first[entry.name].place}"))
            continue
        name = names[entry.name]
        definition = {"domain": source, **entry.definition, "name": name, "original": entry.name if name != entry.name else ""}
        try:
            tools.append(checked_tool(definition))
        except ToolError as fault:
            definition.pop("output", None)
            try:
                tools.append(checked_tool(definition))
                notes.append(Refused(entry.place, entry.name, f"imported without its output schema: {fault}"))
            except ToolError as lasting:
                refused.append(Refused(entry.place, entry.name, str(lasting)))
    return Imported(tuple(tools), tuple(refused), tuple(notes))


def check_tool(tool: Tool, where: str) -> None:
    """Refuse what ``load_tool`` lets pass but no call survives. Raises ToolError."""
    for field, schema in (("parameters", tool.parameters), ("output", tool.output)):
        if schema is not None:
            validation.check_usable(schema, f"{where}: tool {tool.name!r}: {field}")
    check_behaviour(tool, where)


def checked_tool(definition: dict[str, Json]) -> Tool:
    """The tool of a definition that may hold anything. Raises ToolError that says what is wrong with it, not which one it is."""
    try:
        text = json.dumps(definition, ensure_ascii=False, allow_nan=False)  # in its own order, which readers see
        text.encode()
    except RecursionError:
        raise ToolError("its definition is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise ToolError(f"its definition is no JSON ({error})") from None
    outcome = _outcome(text)
    if isinstance(outcome, str):
        raise ToolError(outcome)
    return outcome


@lru_cache(maxsize=4096)
def _outcome(text: str) -> Tool | str:
    """The tool of a definition's JSON, or what is wrong with it. Released rows repeat their tools row after row."""
    definition = json.loads(text)
    try:
        tool = load_tool(definition, "")
        check_tool(tool, "")
    except ToolError as error:
        return str(error).removeprefix(f": tool {definition.get('name')!r}: ").rstrip(".")
    return tool
