"""Tools from elsewhere: one small file per kind of source, a dict names them.

An importer turns a stored document and the name of its source into checked tools.
"""

from collections.abc import Callable

from slca.records import Json
from slca.sgls.importers import mcp
from slca.sgls.tool import Tool

IMPORTERS: dict[str, Callable[[Json, str], tuple[Tool, ...]]] = {"mcp": mcp.from_tools_list}
