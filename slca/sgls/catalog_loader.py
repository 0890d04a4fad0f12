"""The committed catalog: domains of tools (``catalog/<domain>.yaml``) and stored MCP lists (``catalog/mcp/<list>.json``).

A domain's file is a service (``slca.sgls.importers.service``) with the domain's name. MCP lists are imported like any document
(``slca.sgls.stage``).
"""

from collections.abc import Sequence
from pathlib import Path

from slca.errors import ParamsError, ToolError
from slca.sgls.importers.reading import read_document
from slca.sgls.importers.service import from_service
from slca.sgls.tool import Tool, refuse_duplicates

CATALOG = Path(__file__).parent / "catalog"
MCP_LISTS = CATALOG / "mcp"
ALL = "*"


def load_catalog(domains: Sequence[str] = (ALL,), folder: Path = CATALOG) -> tuple[Tool, ...]:
    """The tools of ``domains`` (all of them for ALL), by domain's name, then in their file's order.

    Raises ParamsError for an unknown domain, DataError for a damaged file, ToolError for a definition that cannot be used.
    """
    files = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    for name in domains:
        if name not in files and name != ALL:
            raise ParamsError(f"schemas.domains: there is no domain {name!r}; the known ones are: {', '.join(files)}.")
    tools = tuple(tool for name in (files if ALL in domains else sorted(set(domains))) for tool in _domain(files[name]))
    refuse_duplicates(tools, "the catalog")
    return tools


def load_service(path: Path, origin: str = "service") -> tuple[Tool, ...]:
    """The tools of a service file, such as ``slca simulate import`` writes. Raises DataError, ToolError.

    origin: the source of tools that name none.
    """
    return from_service(read_document(path), path.name, origin).tools


def _domain(path: Path) -> tuple[Tool, ...]:
    tools = load_service(path, "catalog")
    for tool in tools[:1]:
        if tool.domain != path.stem:
            raise ToolError(f"{path.name}: domain is {tool.domain!r}; it must be the file's name, {path.stem!r}.")
    return tools
