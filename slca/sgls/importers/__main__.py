"""Store the tool list of an MCP server in the catalog, with the version of the package that it came from.

python -m slca.sgls.importers --package mcp-server-time --version 2026.10.19 -- python -m mcp_server_time --local-timezone UTC

asks the server, checks that every tool loads, and writes ``slca/sgls/catalog/mcp/<package>.json``. For a service of one's own
there is ``slca simulate import``.
"""

import argparse
import sys
from pathlib import Path

from slca.errors import SlcaError, ToolError
from slca.files import write_json
from slca.sgls.catalog_loader import MCP_LISTS
from slca.sgls.importers.mcp import from_mcp, list_stdio


def main(arguments: list[str]) -> int:
    """Exit status: 0, or 2 with one sentence on stderr."""
    parser = argparse.ArgumentParser(prog="python -m slca.sgls.importers", description="Store the tool list of an MCP server.")
    parser.add_argument("--package", required=True, help="the server's package; also the name of the stored list")
    parser.add_argument("--version", required=True, help="the package's version")
    parser.add_argument("--folder", type=Path, default=MCP_LISTS, help="where to store the list (default: the catalog)")
    parser.add_argument("command", nargs="+", help="after --: the command that starts the server on stdio")
    given = parser.parse_args(arguments)
    try:
        document = {**list_stdio(given.command), "package": given.package, "version": given.version}
        imported = from_mcp(document, given.package)
        if imported.refused:
            raise ToolError(f"{given.package}: {imported.refused[0]}.")
    except SlcaError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    write_json(given.folder / f"{given.package}.json", document)
    print(f"{len(imported.tools)} tools stored in {given.package}.json", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
