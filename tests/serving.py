"""A server in a process of its own on loopback, a client for it, and a service of notes to serve."""

import json
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from slca.params import Simulator
from slca.records import Json
from slca.sgls.server import Limits, Service
from slca.sgls.tool import load_tools

_PROGRAM = "import pickle, sys; from slca.sgls.server.serve import serve; serve(*pickle.load(sys.stdin.buffer))"


@dataclass
class Running:
    """A server that runs. log: what it wrote to standard error so far."""

    url: str
    process: "subprocess.Popen[bytes]"
    log: list[str] = field(default_factory=list)

    def client(self, session: str = "default") -> "Client":
        return Client(self.url, session)


@contextmanager
def serving(
    service: Service, limits: Limits | None = None, host: str = "127.0.0.1", folder: Path | None = None
) -> Iterator[Running]:
    """Serve ``service`` on a free port until the block ends; then it must end well, and have met no defect.

    folder: where it runs, and where its temporary files would go.
    """
    places = {} if folder is None else {"cwd": folder, "env": {**os.environ, "TMPDIR": str(folder)}}
    process = subprocess.Popen([sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, stderr=subprocess.PIPE, **places)
    assert process.stdin is not None and process.stderr is not None
    with process.stdin:
        process.stdin.write(pickle.dumps((service, host, 0, limits)))
    log: list[str] = []
    for line in process.stderr:
        log.append(line.decode())
        if found := re.fullmatch(r"serving \d+ tools at (http://\S+)\n", log[-1]):
            break
    else:
        raise AssertionError("the server did not start:\n" + "".join(log))
    stderr = process.stderr
    reader = threading.Thread(target=lambda: log.extend(line.decode() for line in stderr))
    reader.start()
    try:
        yield Running(found[1], process, log)
    finally:
        process.send_signal(signal.SIGTERM)  # nothing happens where it has ended already
        try:
            status = process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        finally:
            reader.join()
            process.stderr.close()
    assert status == 0 and "Traceback" not in "".join(log), "".join(log)


@dataclass
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The type of a refusal, which must have its one shape."""
        told = self.json
        assert told.keys() == {"error"} and told["error"].keys() == {"type", "message"} and told["error"]["message"], told
        return str(told["error"]["type"])


class Client:
    """One kept connection that speaks to one session."""

    def __init__(self, url: str, session: str = "default") -> None:
        self.session = session
        self._connection = HTTPConnection(urlsplit(url).netloc, timeout=30)

    def send(self, method: str, path: str, body: Json = None, raw: bytes | None = None, **headers: str) -> Reply:
        """``body`` goes as JSON, ``raw`` as it is. Headers are given with _ for -."""
        given = {"X-SLCA-Session": self.session} | {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            raw = json.dumps(body).encode()
            given.setdefault("Content-Type", "application/json")
        self._connection.request(method, path, raw, given)
        response = self._connection.getresponse()
        return Reply(response.status, response.headers, response.read())

    def call(self, name: str, arguments: Json) -> Reply:
        return self.send("POST", f"/tools/{name}", arguments)

    def close(self) -> None:
        self._connection.close()


_NOTE: Json = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "title": {"type": "string"},
        "stars": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["id", "title", "stars"],
    "additionalProperties": False,
}
_TITLE: Json = {"type": "string", "minLength": 1, "maxLength": 200}
_STARS: Json = {"type": "integer", "minimum": 0, "maximum": 5}
_TAGS: Json = {"type": "array", "items": {"type": "string"}, "maxItems": 8}
_FIELDS = {name: {"part": "field", "name": name} for name in ("title", "stars", "tags")}
_WRITES = {"title": "title", "stars": "stars", "tags": "tags"}
_ID_PLACE = {"part": "path", "name": "id"}


def _tool(name: str, properties: Json, required: list[str], route: Json, behaviour: Json, output: Json) -> dict[str, Json]:
    parameters = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    if behaviour is not None:
        behaviour = {"entity": "note", "id_field": "id", **behaviour}
    return {"name": name, "parameters": parameters, "route": route, "behaviour": behaviour, "output": output}


NOTES = load_tools(
    [
        _tool(
            "create_note",
            {"title": _TITLE, "stars": _STARS, "tags": _TAGS},
            ["title", "stars"],
            {"method": "POST", "path": "/notes", "arguments": _FIELDS, "status": 201},
            {"kind": "create", "fields": _WRITES},
            _NOTE,
        ),
        _tool(
            "read_note",
            {"note_id": {"type": "string"}},
            ["note_id"],
            {"method": "GET", "path": "/notes/{id}", "arguments": {"note_id": _ID_PLACE}},
            {"kind": "look_up", "key": "note_id"},
            _NOTE,
        ),
        _tool(
            "change_note",
            {"note_id": {"type": "string"}, "title": _TITLE, "stars": _STARS, "tags": _TAGS},
            ["note_id"],
            {"method": "PATCH", "path": "/notes/{id}", "arguments": {"note_id": _ID_PLACE, **_FIELDS}},
            {"kind": "update", "key": "note_id", "fields": _WRITES},
            _NOTE,
        ),
        _tool(
            "delete_note",
            {"note_id": {"type": "string"}},
            ["note_id"],
            {"method": "DELETE", "path": "/notes/{id}", "arguments": {"note_id": _ID_PLACE}, "status": 204},
            {"kind": "delete", "key": "note_id"},
            _NOTE,
        ),
        _tool(
            "find_notes",
            {"text": {"type": "string"}, "most_stars": {"type": "integer"}, "least_stars": {"type": "integer"}},
            [],
            {
                "method": "GET",
                "path": "/notes",
                "arguments": {
                    "text": {"part": "query", "name": "q"},
                    "least_stars": {"part": "query", "name": "min-stars"},
                    "most_stars": {"part": "query", "name": "max-stars"},
                },
            },
            {
                "kind": "search",
                "result": "notes",
                "where": [
                    {"argument": "text", "field": "title", "op": "contains"},
                    {"argument": "least_stars", "field": "stars", "op": "ge"},
                    {"argument": "most_stars", "field": "stars", "op": "le"},
                ],
            },
            {"type": "object", "properties": {"notes": {"type": "array", "items": _NOTE}}, "required": ["notes"]},
        ),
        _tool(
            "count_words",
            {"text": {"type": "string"}},
            ["text"],
            {"method": "GET", "path": "/notes/words", "arguments": {"text": {"part": "query", "name": "text"}}},
            None,
            {"type": "integer", "minimum": 0, "maximum": 99},
        ),
    ],
    "notes",
)
"""Create, read, change, delete and find notes; ``count_words`` has no behaviour, a literal path beside ``/notes/{id}``, and
answers with a bare number."""


def notes(**params: Any) -> Service:
    return Service(NOTES, Simulator(**params), {"note": {"first": {"title": "Buy milk", "stars": 2}}}, "notes")
