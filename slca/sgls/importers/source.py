"""One way in for every source of tools: a text says where they are, the content says of what kind they are.

* ``petstore.yaml``: a JSON or YAML document: OpenAPI, Google Discovery, a list of MCP tools or functions, a service of our own.
* ``train.parquet``: released SLCA rows.
* ``http://127.0.0.1:8000/mcp``: a running MCP server, over streamable HTTP.
* ``mcp:COMMAND ARGUMENTS``: an MCP server on stdio, started by this command.
* ``package.module:function``: a Python callable; ``python:package.module``: all public functions of a module.
"""

import os
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from slca.errors import DataError
from slca.records import Json
from slca.sgls.importers.base import Imported
from slca.sgls.importers.callables import load_callables
from slca.sgls.importers.discovery import from_discovery
from slca.sgls.importers.functions import from_functions
from slca.sgls.importers.mcp import from_mcp, list_http, list_stdio
from slca.sgls.importers.names import tool_names
from slca.sgls.importers.openapi import from_openapi
from slca.sgls.importers.reading import read_document
from slca.sgls.importers.released import load_released
from slca.sgls.importers.service import from_service

IMPORTERS: dict[str, Callable[[Json, str], Imported]] = {
    "openapi": from_openapi,
    "discovery": from_discovery,
    "mcp": from_mcp,
    "service": from_service,
    "functions": from_functions,
}
"""Kinds of documents, in the order in which a document is tried."""

KINDS = (*IMPORTERS, "released", "python")
"""What ``load_source`` may be told that a source is."""

_CALLABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_PARQUET = b"PAR1"


def load_source(text: str, kind: str = "", headers: Mapping[str, str] | None = None) -> Imported:
    """The tools of the source that ``text`` names. Their domain: the file's name without its ending, the module's, the server's.

    kind: one of ``KINDS``; empty: by the content. headers: for an MCP server at a URL. Raises DataError where there is nothing to
    read or its kind is not known, ToolError for a fault in a service, MissingDependency.
    """
    if kind and kind not in KINDS:
        raise DataError(f"There is no kind of source {kind!r}; the known ones are: {', '.join(KINDS)}.")
    if text.startswith(("http://", "https://")):
        _expect("mcp", kind, text)
        return _server(list_http(text, headers))
    if text.startswith("mcp:"):
        _expect("mcp", kind, text)
        return _server(list_stdio(_command(text.removeprefix("mcp:"))))
    is_file = os.path.isfile(text)  # false, where Path.is_file raises for a name that is too long
    if kind == "python" or text.startswith("python:") or (_CALLABLE.fullmatch(text) and not is_file):
        _expect("python", kind, text)
        return load_callables(text.removeprefix("python:"))
    if not is_file:
        raise DataError(
            f"There is no file {text!r}; a source is a file, an MCP server's URL, mcp:COMMAND, module:function or python:module."
        )
    path = Path(text)
    if _is_parquet(path):
        _expect("released", kind, text)
        return load_released(path)
    document = read_document(path)
    return IMPORTERS[_kind(document, text, kind)](document, path.stem)


def _server(document: dict[str, Json]) -> Imported:
    return from_mcp(document, tool_names([document["package"]])[0])  # what a server calls itself may be anything


def _command(text: str) -> list[str]:
    try:
        command = shlex.split(text)
    except ValueError as error:
        raise DataError(f"mcp:{text} is no command: {error}.") from None
    if not command:
        raise DataError("mcp: names no command; write mcp: and what starts the server, such as 'mcp:python -m mcp_server_time'.")
    return command


def _is_parquet(path: Path) -> bool:
    if path.suffix == ".parquet":
        return True
    try:
        with path.open("rb") as stream:
            return stream.read(len(_PARQUET)) == _PARQUET
    except OSError:
        return False  # whoever reads it next says why it cannot be read


def _kind(document: Json, text: str, kind: str) -> str:
    if kind:
        if kind not in IMPORTERS:
            raise DataError(f"{text} is a document, which cannot be of the kind {kind!r}; name one of: {', '.join(IMPORTERS)}.")
        return kind
    for name, (_, fits) in _MARKS.items():
        if fits(document):
            return name
    known = "; ".join(f"{name}: {mark}" for name, (mark, _) in _MARKS.items())
    raise DataError(f"{text} is no document that is known here. Known are {known}.")


def _expect(found: str, kind: str, text: str) -> None:
    if kind not in ("", found):
        raise DataError(f"{text} is a source of kind {found!r}, not {kind!r}.")


def _members(document: Json, *keys: str) -> list[dict[str, Json]]:
    """The objects in a list, which may lie under ``keys``, one inside the other."""
    for key in keys:
        document = document.get(key, document) if isinstance(document, dict) else document
    return [entry for entry in document if isinstance(entry, dict)] if isinstance(document, list) else []


def _has(document: Json, *keys: str) -> bool:
    return isinstance(document, dict) and any(key in document for key in keys)


_MARKS: dict[str, tuple[str, Callable[[Json], bool]]] = {
    "openapi": ("field openapi or swagger", lambda document: _has(document, "openapi", "swagger")),
    "discovery": ("field discoveryVersion", lambda document: _has(document, "discoveryVersion")),
    "mcp": (
        "a list of tools with inputSchema, as tools/list answers",
        lambda document: any("inputSchema" in tool for tool in _members(document, "result", "tools")),
    ),
    "service": ("fields domain and tools, as slca simulate import writes them", lambda document: _has(document, "domain")),
    "functions": (
        "a list of functions, alone or in field tools or functions",
        lambda document: any(_has(entry, "name", "function", "type") for entry in _members(document, "tools", "functions")),
    ),
}
