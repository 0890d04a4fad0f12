"""``slca simulate``: import tool lists, serve them, call them, measure their fidelity, look after the cache.

A SOURCE is whatever ``slca.sgls.importers.source`` reads: an OpenAPI or Discovery document, a list of MCP tools or functions, a
service file of our own, an MCP server's URL or command, a Python module.
"""

import json
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from pydantic import ValidationError
from rich.console import Console
from rich.table import Column, Table

from slca.errors import DataError, ParamsError
from slca.params import Simulator
from slca.records import Json, State
from slca.sgls.importers.base import Imported

app = typer.Typer(
    help="Simulate a service from its tool list: import, serve, call, report, cache.", no_args_is_help=True, add_completion=False
)

Source = Annotated[str, typer.Option("--from", help="Document, service file, MCP server's URL, mcp:COMMAND, or module:function.")]
Kind = Annotated[str, typer.Option(help="Kind of source, where its content does not tell.")]
Infer = Annotated[bool, typer.Option("--infer/--no-infer", help="Infer what calls do to records from paths and schemas.")]
Records = Annotated[int, typer.Option(help="Records of each kind that the service begins with.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="NAME=VALUE, a parameter of section simulator; may be repeated.")]


@app.command("import")
def import_(
    source: Annotated[str, typer.Argument(help="What --from of the other commands names.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Service file to write; its name becomes the service's.")],
    kind: Kind = "",
    infer: Infer = True,
    header: Annotated[list[str] | None, typer.Option(help="NAME: VALUE, for an MCP server at a URL.")] = None,
) -> None:
    """Any source of tools -> a service file, to be read, edited and served."""
    from slca.sgls.inference import summary
    from slca.sgls.service_file import write_service

    imported = open_source(source, kind, infer, _headers(header or ()))
    tools = [tool.model_copy(update={"domain": output.stem}) for tool in imported.tools]
    if not tools:
        raise DataError(f"{source}: nothing was imported. {'; '.join(str(refusal) for refusal in imported.refused[:3])}")
    write_service(output, output.stem, tools)
    console = Console(stderr=True)
    columns = [Column(title, overflow="fold") for title in ("records", "calls on them", "answered from their schemas")]
    table = Table(*columns, title=f"{len(tools)} tools in {output}")
    for row in summary(tools):
        table.add_row(row.entity or "none", "\n".join(row.operations), _some(row.uninferred))
    console.print(table)
    for title, rows in (("imported with less than the source says", imported.notes), ("not imported", imported.refused)):
        for entry in rows:
            console.print(f"{title}: {entry}", highlight=False, markup=False, soft_wrap=True)


@app.command()
def serve(
    source: Source,
    kind: Kind = "",
    infer: Infer = True,
    records: Records = 3,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 is any free one.")] = 8000,
    base_path: Annotated[str, typer.Option(help="What stands before the service's paths, such as /v1.")] = "",
    settings: Set = None,
    limits: Annotated[list[str] | None, typer.Option("--limit", help="NAME=VALUE, such as requests_per_second=50.")] = None,
) -> None:
    """Serve a simulated service over HTTP and MCP until it is stopped."""
    from pydantic import TypeAdapter

    from slca.sgls.server.options import Limits, Service
    from slca.sgls.server.serve import serve

    imported = open_source(source, kind, infer)
    bounds: Limits = _given(TypeAdapter(Limits).validate_python, limits or (), "--limit")
    title = imported.tools[0].domain if imported.tools else source
    service = Service(imported.tools, simulator_of(settings or ()), initial_state(imported, records), title, base_path)
    serve(service, host, port, bounds)


@app.command()
def call(
    source: Source,
    name: Annotated[str, typer.Argument(help="Name of the tool.")],
    arguments: Annotated[str, typer.Argument(help="Its arguments, a JSON object.")] = "{}",
    kind: Kind = "",
    infer: Infer = True,
    records: Records = 3,
    settings: Set = None,
) -> None:
    """Call one tool once and print what it answers, a result or a typed error."""
    from slca.sgls.simulator import Session

    try:
        given = json.loads(arguments)
    except (json.JSONDecodeError, RecursionError) as error:
        raise DataError(f'The arguments are not JSON ({error}); write an object such as \'{{"city": "Oslo"}}\'.') from None
    imported = open_source(source, kind, infer)
    session = Session(imported.tools, initial_state(imported, records), simulator_of(settings or ()), "call")
    typer.echo(json.dumps(session.call(name, given).result, ensure_ascii=False, indent=2))


@app.command()
def report(
    source: Source,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder for table, JSON and figure.")] = None,
    calls: Annotated[int, typer.Option(help="Calls of each tool, and records of each kind.")] = 10,
    kind: Kind = "",
    infer: Infer = True,
    records: Records = 3,
    settings: Set = None,
) -> None:
    """Measure how true a simulated service is to its schemas and to itself."""
    from slca.bars import Bars
    from slca.sgls.fidelity.report import measure, rows, write

    imported = open_source(source, kind, infer)
    if not imported.tools:
        raise DataError(f"{source} has no tool to call.")
    simulator = simulator_of(settings or ())
    with Bars() as bars:
        measures = measure(imported.tools, initial_state(imported, records), simulator, calls, bars.add)
    table = Table("measured", "value", title=f"fidelity of {imported.tools[0].domain}")
    for row in rows(measures):
        table.add_row(*row)
    Console().print(table)
    for breach in measures["breaches"]:
        Console().print(f"broken: {breach}", highlight=False, markup=False, soft_wrap=True)
    if output is not None:
        write(output, imported.tools[0].domain, simulator, measures)


class Upkeep(StrEnum):
    LIST = "list"
    VERIFY = "verify"
    PRUNE = "prune"


@app.command()
def cache(
    action: Annotated[Upkeep, typer.Argument(help="list the entries, verify them, or prune the folder.")],
    folder: Annotated[Path, typer.Argument(help="What simulator.cache_folder names.")],
    max_mb: Annotated[float | None, typer.Option(help="prune: remove the oldest until this many MB are left.")] = None,
    older_than_days: Annotated[float | None, typer.Option(help="prune: remove what is older.")] = None,
    backend: Annotated[str | None, typer.Option(help="prune: remove what this backend answered.")] = None,
) -> None:
    """Look after a folder of cached answers. verify exits with 2 where an entry is damaged."""
    from slca.sgls.cache_upkeep import entries, prune, size, verify

    match action:
        case Upkeep.LIST:
            table = Table("tool", "backend", "model", "bytes", "entry")
            for entry in entries(folder):
                question = entry.question
                table.add_row(question.tool, question.backend, question.model, str(entry.bytes), entry.path.stem[:12])
            Console().print(table)
            held = size(folder)
            typer.echo(f"{held.entries} entries, {held.bytes / 1e6:.3f} MB")
        case Upkeep.VERIFY:
            damaged = verify(folder)
            if damaged:
                listed = ", ".join(str(path) for path in damaged[:5])
                mend = f"remove them with slca simulate cache prune {folder}"
                raise DataError(f"{len(damaged)} entries are damaged ({listed}); {mend}.")
            typer.echo(f"{size(folder).entries} entries, none damaged")
        case Upkeep.PRUNE:
            most = None if max_mb is None else int(max_mb * 1e6)
            oldest = None if older_than_days is None else older_than_days * 86400
            gone = prune(folder, most, oldest, backend)
            left = size(folder)
            typer.echo(f"removed {gone.entries} entries, {gone.bytes / 1e6:.3f} MB")
            typer.echo(f"left {left.entries} entries, {left.bytes / 1e6:.3f} MB")


def open_source(source: str, kind: str = "", infer: bool = True, headers: dict[str, str] | None = None) -> Imported:
    """The tools of a source, with behaviours inferred where it declares none."""
    from slca.sgls.importers.source import load_source
    from slca.sgls.inference import infer as inferred

    imported = load_source(source, kind, headers)
    return replace(imported, tools=inferred(imported.tools)) if infer else imported


def initial_state(imported: Imported, records: int) -> State:
    from slca.sgls.inference import seed_state

    return seed_state(imported.tools, records, 0) if records else {}


def simulator_of(settings: "list[str] | tuple[str, ...]") -> Simulator:
    """Section ``simulator`` with NAME=VALUE settings over the defaults; values are YAML. Raises ParamsError."""
    found: Simulator = _given(Simulator.model_validate, settings, "--set")
    return found


def _given(validate: Any, pairs: "list[str] | tuple[str, ...]", option: str) -> Any:
    values: dict[str, Json] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise ParamsError(f"{option} {pair!r}: write NAME=VALUE.")
        try:
            values[name] = yaml.safe_load(text)
        except yaml.YAMLError:
            raise ParamsError(f"{option} {pair!r}: the value is not YAML.") from None
    try:
        return validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        raise ParamsError(f"{option} {'.'.join(str(part) for part in first['loc'])}: {first['msg']}.") from None


def _headers(pairs: "list[str] | tuple[str, ...]") -> dict[str, str]:
    headers = {}
    for pair in pairs:
        name, colon, value = pair.partition(":")
        if not colon:
            raise ParamsError(f"--header {pair!r}: write NAME: VALUE.")
        headers[name.strip()] = value.strip()
    return headers


def _some(names: "tuple[str, ...]") -> str:
    return "\n".join(names[:8]) + (f"\nand {len(names) - 8} more" if len(names) > 8 else "")
