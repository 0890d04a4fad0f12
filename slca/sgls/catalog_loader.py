"""The committed catalog: domains of tools (``catalog/<domain>.yaml``) and stored MCP lists (``catalog/mcp/<list>.json``).

A domain's file holds ``domain`` (its name) and ``tools`` (definitions of ``slca.sgls.tool.Tool``).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from slca.errors import ParamsError, ToolError
from slca.files import canonical_json, read_json
from slca.sgls import validation
from slca.sgls.behaviours import check_behaviour
from slca.sgls.importers import IMPORTERS
from slca.sgls.tool import Tool, load_tools, refuse_duplicates

CATALOG = Path(__file__).parent / "catalog"
MCP_LISTS = CATALOG / "mcp"


def load_catalog(domains: Sequence[str] = (), folder: Path = CATALOG) -> tuple[Tool, ...]:
    """The tools of ``domains`` (all if empty), by domain's name, then in their file's order.

    Raises ParamsError for an unknown domain, ToolError for a definition that cannot be used.
    """
    files = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    chosen = _chosen(domains, files, "schemas.domains", "domain")
    tools = tuple(tool for name in chosen for tool in _domain(files[name]))
    refuse_duplicates(tools, "the catalog")
    return tools


def load_mcp_lists(names: Sequence[str], folder: Path = MCP_LISTS) -> tuple[Tool, ...]:
    """The tools of the stored MCP lists ``names``. Raises as ``load_catalog``, and DataError for a damaged file."""
    files = {path.stem: path for path in sorted(folder.glob("*.json"))}
    chosen = _chosen(names, files, "schemas.mcp_lists", "stored MCP list") if names else []
    tools = tuple(tool for name in chosen for tool in IMPORTERS["mcp"](read_json(files[name]), name))
    for tool in tools:
        check_tool(tool, tool.domain)
    return tools


def check_tool(tool: Tool, where: str) -> None:
    """Refuse what ``load_tool`` lets pass but no call survives. Raises ToolError."""
    for field, schema in (("parameters", tool.parameters), ("output", tool.output)):
        if schema is not None:
            validation.check_usable(schema, f"{where}: tool {tool.name!r}: {field}")
    check_behaviour(tool, where)


def _chosen(names: Sequence[str], files: dict[str, Path], parameter: str, what: str) -> list[str]:
    for name in names:
        if name not in files:
            raise ParamsError(f"{parameter}: there is no {what} {name!r}; the known ones are: {', '.join(files)}.")
    return sorted(set(names)) if names else list(files)


def _domain(path: Path) -> tuple[Tool, ...]:
    where = path.name
    try:
        document: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ToolError(f"{where} is not valid YAML: {' '.join(str(error).split())}.") from None
    if not isinstance(document, dict) or document.keys() != {"domain", "tools"} or not isinstance(document["tools"], list):
        raise ToolError(f"{where} must hold domain (a name) and tools (a list), nothing else.")
    if document["domain"] != path.stem:
        raise ToolError(f"{where}: domain is {document['domain']!r}; it must be the file's name, {path.stem!r}.")
    try:
        canonical_json(document)
    except (TypeError, ValueError) as error:
        raise ToolError(f"{where}: a value is no JSON ({error}); put dates and the words yes, no, on, off in quotes.") from None
    tools = load_tools([_labelled(tool, document["domain"]) for tool in document["tools"]], where)
    for tool in tools:
        check_tool(tool, where)
    return tools


def _labelled(definition: Any, domain: str) -> Any:
    return {"source": "catalog", **definition, "domain": domain} if isinstance(definition, dict) else definition
