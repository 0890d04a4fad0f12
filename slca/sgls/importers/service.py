"""Services in our own words: a document with ``domain`` (a name) and ``tools`` (definitions of ``slca.sgls.tool.Tool``).

The committed catalog is written like this, and so is what ``slca simulate import`` writes for its user to read and edit. Such a
document says of itself that it is complete, so it is taken whole or not at all: a fault in it is a slip of the pen.
"""

from slca.errors import ToolError
from slca.records import Json
from slca.sgls.importers.base import Imported
from slca.sgls.importers.checked import checked_tool
from slca.sgls.tool import Tool, refuse_duplicates


def from_service(document: Json, source: str, origin: str = "service") -> Imported:
    """The tools of ``document``, which messages call ``source``; those that name no source of their own come from ``origin``.

    Raises ToolError that names ``source``, the tool and the field.
    """
    if not isinstance(document, dict) or document.keys() != {"domain", "tools"} or not isinstance(document["tools"], list):
        raise ToolError(f"{source} must hold domain (a name) and tools (a list), nothing else.")
    domain = document["domain"]
    if not isinstance(domain, str) or not domain:
        raise ToolError(f"{source}: domain is {domain!r}; it must be a name.")
    tools = tuple(_tool(definition, domain, origin, source) for definition in document["tools"])
    refuse_duplicates(tools, source)
    return Imported(tools)


def _tool(definition: Json, domain: str, origin: str, source: str) -> Tool:
    if not isinstance(definition, dict):
        raise ToolError(f"{source}: every tool must be an object with a name and parameters.")
    try:
        return checked_tool({"source": origin, **definition, "domain": domain})
    except ToolError as error:
        raise ToolError(f"{source}: tool {definition.get('name')!r}: {error}.") from None
