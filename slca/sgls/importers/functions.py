"""Function lists, as chat APIs take them: a JSON list, or a request whose ``tools`` or ``functions`` is that list.

An entry is ``{"type": "function", "function": {name, description, parameters}}`` (Chat Completions), the same flat with its type
(Responses) or without (the older ``functions``), or has ``input_schema`` in place of ``parameters`` (Anthropic). A function
without parameters takes no arguments. ``strict`` is not kept: here every call is validated.
"""

from slca.errors import DataError
from slca.records import Json
from slca.sgls.importers.base import Imported, Refused
from slca.sgls.importers.checked import NO_ARGUMENTS, Found, checked_tools


def from_functions(document: Json, source: str) -> Imported:
    """The functions of a list; what is none (a built-in such as ``web_search``) is refused. Raises DataError without a list."""
    key = next((key for key in ("tools", "functions") if isinstance(document, dict) and key in document), "")
    entries = document[key] if key else document
    if not isinstance(entries, list):
        raise DataError(f"{source}: a function list is a JSON list, or an object whose field tools or functions is one.")
    places = ["/".join(("#", *((key,) if key else ()), str(index))) for index in range(len(entries))]
    return checked_tools(
        [function_tool(entry, place, f"functions:{source}") for entry, place in zip(entries, places, strict=True)], source
    )


def function_tool(entry: Json, place: str, origin: str) -> Found | Refused:
    """One entry of a list, its schema not yet checked. origin: the tool's ``source``."""
    if not isinstance(entry, dict):
        return Refused(place, "", "an entry is an object with a name")
    inner = entry["function"] if isinstance(entry.get("function"), dict) else entry
    name, kind = inner.get("name"), entry.get("type", "function")
    if kind != "function" and not (kind == "custom" and "input_schema" in entry):
        return Refused(place, str(name or kind), f"its type {kind!r} is no function")
    if not isinstance(name, str) or not name:
        return Refused(place, "", "a function has a name, which is text")
    parameters = inner.get("parameters", inner.get("input_schema")) or NO_ARGUMENTS
    if not isinstance(parameters, dict):
        return Refused(place, name, "its parameters are no schema, which is an object")
    definition = {"description": inner.get("description") or "", "parameters": {"type": "object"} | parameters}
    return Found(place, name, {**definition, "source": origin})
