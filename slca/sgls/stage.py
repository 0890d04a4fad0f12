"""Stage ``schemas``: the catalog's domains and the stored MCP lists that params.yaml names -> data/schemas.parquet."""

from pathlib import Path

from slca.params import Params
from slca.sgls.catalog_loader import load_catalog, load_mcp_lists
from slca.sgls.tool import refuse_duplicates
from slca.tables import write_tools


def run(params: Params, root: Path = Path(".")) -> None:
    """Write the checked tools, catalog first. Raises ParamsError for an unknown domain or list, ToolError for a bad tool."""
    tools = load_catalog(params.schemas.domains) + load_mcp_lists(params.schemas.mcp_lists)
    refuse_duplicates(tools, "schemas")
    write_tools(root / "data" / "schemas.parquet", tools)
