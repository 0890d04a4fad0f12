"""Stage ``schemas``: the catalog's domains and the imported documents that params.yaml names -> data/schemas.parquet.

``schemas.imports`` is a file, or a folder of files, of any kind that ``slca.sgls.importers.source`` reads; its path is taken from
the working directory. Behaviours are inferred where a document declares none. What cannot be imported is logged with its place,
and the rest is used.
"""

import logging
from collections.abc import Collection, Sequence
from pathlib import Path

from slca.errors import ParamsError
from slca.params import Params
from slca.sgls.catalog_loader import load_catalog
from slca.sgls.importers.names import tool_names
from slca.sgls.importers.source import load_source
from slca.sgls.inference import infer
from slca.sgls.tool import Tool, refuse_duplicates
from slca.tables import write_tools

log = logging.getLogger(__name__)

DOCUMENTS = (".json", ".yaml", ".yml", ".parquet")


def run(params: Params, root: Path = Path(".")) -> None:
    """Write the checked tools, catalog first.

    Raises ParamsError for an unknown domain, a path that is not there, fault rates of unknown tools, or without any tool, and
    ToolError or DataError for a document that is not what it seems.
    """
    catalog = load_catalog(params.schemas.domains)
    tools = catalog + load_imports(Path(params.schemas.imports), {tool.name for tool in catalog})
    if not tools:
        raise ParamsError("schemas: there is no tool; name catalog domains, or documents under schemas.imports.")
    refuse_duplicates(tools, "schemas")
    _check_fault_rates(params, tools)
    write_tools(root / "data" / "schemas.parquet", tools)


def load_imports(path: Path, taken: Collection[str] = ()) -> tuple[Tool, ...]:
    """The tools of a document, or of all documents in a folder in name order, with behaviours.

    Names that are ``taken``, or that an earlier document has, get the document's name in front. Raises ParamsError for a path
    that is not there.
    """
    if not path.exists():
        raise ParamsError(f"schemas.imports: there is no file or folder {path}; name a document with tools, or a folder of them.")
    files = sorted(file for file in path.iterdir() if file.suffix in DOCUMENTS) if path.is_dir() else [path]
    tools: list[Tool] = []
    used = set(taken)
    for file in files:
        imported = load_source(str(file))
        for refusal in imported.refused:
            log.warning("%s: not imported: %s", file.name, refusal)
        for tool in infer(imported.tools):
            if tool.name in used:
                tool = _renamed(tool, used)
            used.add(tool.name)
            tools.append(tool)
        log.info("%s: %d tools, %d not imported", file.name, len(imported.tools), len(imported.refused))
    return tuple(tools)


def _renamed(tool: Tool, used: Collection[str]) -> Tool:
    wanted = f"{tool.domain}_{tool.name}"
    name = tool_names([*sorted(used), wanted])[-1]
    return tool.model_copy(update={"name": name, "original": tool.original or tool.name})


def _check_fault_rates(params: Params, tools: Sequence[Tool]) -> None:
    unknown = sorted(params.simulator.fault_rates.keys() - {tool.name for tool in tools})
    if unknown:
        raise ParamsError(
            f"simulator.fault_rates: there is no tool {unknown[0]!r} in this pipeline; mend its name or leave it out."
        )
