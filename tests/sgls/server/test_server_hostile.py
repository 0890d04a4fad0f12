"""Hostile input over HTTP: a typed refusal in bounded time, nothing written, and the server goes on."""

import json
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from serving import Running, notes, serving

from slca.sgls.server import Limits, Service
from slca.sgls.server.gate import Rates
from slca.sgls.tool import load_tools

MEGABYTES = 10_000_000
JSON = {"Content_Type": "application/json"}
BODIES = {
    "10 MB string": (b'{"title": "' + b"a" * MEGABYTES + b'", "stars": 1}', 413, "body_too_large"),
    "depth 100,000": (b'{"title": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400, "malformed_request"),
    "depth 100,000, open": (b'{"a":' * 100_000, 400, "malformed_request"),
    "depth 65": (b'{"title": ' + b"[" * 64 + b"]" * 64 + b"}", 400, "malformed_request"),
    "NaN": (b'{"title": "a", "stars": NaN}', 400, "malformed_request"),
    "infinity": (b'{"title": "a", "stars": -Infinity}', 400, "malformed_request"),
    "1e999": (b'{"title": "a", "stars": 1e999}', 400, "malformed_request"),
    "a whole number of 100,000 digits": (b'{"title": "a", "stars": ' + b"9" * 100_000 + b"}", 400, "malformed_request"),
    "a whole number of 300 digits": (b'{"title": "a", "stars": ' + b"9" * 300 + b"}", 422, "invalid_arguments"),
    "broken UTF-8": (b'{"title": "\xff\xfe", "stars": 1}', 400, "malformed_request"),
    "an overlong slash": (b'{"title": "\xc0\xaf", "stars": 1}', 400, "malformed_request"),
    "half a surrogate pair": (b'{"title": "\\ud800", "stars": 1}', 422, "invalid_arguments"),
    "a name twice": (b'{"title": "a", "title": "b", "stars": 1}', 400, "malformed_request"),
    "no end": (b'{"title": "a', 400, "malformed_request"),
    "no object": (b'"title"', 422, "invalid_arguments"),
    "null": (b"null", 422, "invalid_arguments"),
    "a NUL": (b"\x00", 400, "malformed_request"),
    "a mark of byte order": (b"\xef\xbb\xbf{}", 400, "malformed_request"),
    "100,000 names": (json.dumps({f"n{number}": 1 for number in range(60_000)}).encode(), 422, "invalid_arguments"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def attacked(folder: Path) -> Iterator[Running]:
    """A server in an empty folder, which must be empty still when all attacks are over."""
    with serving(notes(), Limits(arrival_seconds=1.0), folder=folder) as running:
        yield running
        assert running.client("after").send("POST", "/notes", {"title": "alive", "stars": 1}).status == 201
        assert running.client().send("GET", "/_slca/sessions/default").json["state"] == notes().state
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("path", ["/notes", "/tools/create_note"])
@pytest.mark.parametrize("name", BODIES)
def test_a_hostile_body_is_refused_with_a_type(attacked: Running, name: str, path: str) -> None:
    body, status, kind = BODIES[name]
    reply = attacked.client().send("POST", path, raw=body, **JSON)
    assert (reply.status, reply.error) == (status, kind), reply


@pytest.mark.parametrize("name", ["10 MB string", "depth 100,000", "depth 100,000, open", "NaN", "broken UTF-8", "null"])
def test_a_hostile_body_does_not_hurt_the_mcp_endpoint(attacked: Running, name: str) -> None:
    accept = "application/json, text/event-stream"
    for version in ("2025-06-18", "2026-07-28"):
        reply = attacked.client().send("POST", "/mcp", raw=BODIES[name][0], Accept=accept, MCP_Protocol_Version=version, **JSON)
        assert reply.status in (400, 413), reply


def test_a_body_that_does_not_say_its_length_is_counted_as_it_comes(attacked: Running) -> None:
    connection = HTTPConnection(urlsplit(attacked.url).netloc, timeout=30)
    chunks = (b"a" * 65536 for _ in range(160))
    connection.request("POST", "/notes", chunks, {"Content-Type": "application/json"}, encode_chunked=True)
    assert connection.getresponse().status == 413


@pytest.mark.parametrize(
    "note_id", ["../../etc/passwd", "..\\..\\boot.ini", "\x00", "a" * 4000, "%2e%2e%2f", "é", "{id}", "__proto__"]
)
def test_an_id_is_never_more_than_a_key(attacked: Running, note_id: str) -> None:
    client = attacked.client()
    path = "/notes/" + "".join(f"%{byte:02x}" for byte in note_id.encode())[:8000]
    for method in ("GET", "DELETE"):
        assert client.send(method, path).error == "not_found"
    assert client.call("read_note", {"note_id": note_id}).error == "not_found"
    assert (
        client.send("GET", "/_slca/sessions/" + "".join(f"%{byte:02x}" for byte in note_id.encode())[:8000]).error
        == "unknown_session"
    )


def test_a_long_path_or_query_is_refused(attacked: Running) -> None:
    client = attacked.client()
    for path in ("/notes/" + "a" * 8192, "/notes?q=" + "a" * 8192, "/" * 9000):
        reply = client.send("GET", path)
        assert (reply.status, reply.error) == (414, "uri_too_long")
    assert client.send("GET", "/notes?" + "&".join(["q=1"] * 1001)).error == "malformed_request"


def _sent(url: str, *parts: bytes) -> bytes:
    """All that comes back until the server closes the connection."""
    host = urlsplit(url)
    with socket.create_connection((host.hostname, host.port), timeout=30) as connection:
        try:
            for part in parts:
                connection.sendall(part)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server has had enough
        answer = b""
        try:
            while part := connection.recv(65536):
                answer += part
        except ConnectionResetError:
            pass
        return answer


@pytest.mark.parametrize(
    "parts",
    [
        [b"GET /notes HTTP/1.1\r\nHost: a\r\nX-Long: ", *[b"a" * 65536] * 160],
        [b"GET /", *[b"a" * 65536] * 160],
        [b"GET /notes HTTP/1.1\r\n", *[b"A: b\r\n" * 10_000] * 100],
        [b"\x16\x03\x01\x02\x00\x01\x00"],
        [b"GET /n\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n"],
        [b"POST /notes HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n"],
        [b"POST /notes HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
    ],
    ids=["long header", "long line", "many headers", "no HTTP", "raw UTF-8", "negative length", "two lengths"],
)
def test_what_is_no_request_is_answered_400_at_the_most(attacked: Running, parts: list[bytes]) -> None:
    answer = _sent(attacked.url, *parts)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400 "), answer[:200]


def test_who_sends_too_slowly_is_not_waited_for(attacked: Running) -> None:
    """Neither for the first byte, nor for the rest of the head, nor for the body."""
    assert _sent(attacked.url) == b""
    assert _sent(attacked.url, b"GET /notes HTT") == b""
    body = _sent(attacked.url, b"POST /notes HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 9\r\n\r\n{")
    assert body.startswith(b"HTTP/1.1 408 ") and b'"too_slow"' in body


def test_a_pattern_that_backtracks_without_end_does_not_stop_the_server() -> None:
    bomb = {
        "name": "bomb",
        "parameters": {"type": "object", "properties": {"text": {"type": "string", "pattern": "^(a+)+$"}}, "required": ["text"]},
    }
    with serving(Service(load_tools([bomb], "bomb"))) as server:
        client = server.client()
        reply = client.call("bomb", {"text": "a" * 5000 + "!"})
        assert (reply.status, reply.error) == (422, "invalid_arguments")
        assert client.send("GET", "/tools").status == 200


def test_a_client_beyond_its_rate_is_told_when_to_come_back() -> None:
    with serving(notes(), Limits(requests_per_second=1.0)) as server:
        client = server.client()
        replies = [client.send("GET", "/notes", X_Forwarded_For=f"10.0.0.{number}") for number in range(30)]
    refused = [reply for reply in replies if reply.status == 429]
    assert len(refused) > 15 and {reply.error for reply in refused} == {"too_many_requests"}
    assert {reply.headers["Retry-After"] for reply in refused} == {"1"}


def test_a_bucket_fills_at_its_rate_and_no_further() -> None:
    now = [100.0]
    rates = Rates(2.0, lambda: now[0])
    assert [rates.wait("a") for _ in range(3)] == [0, 0, 0.5]
    assert rates.wait("b") == 0  # another client
    now[0] += 0.5
    assert [rates.wait("a") for _ in range(2)] == [0, 0.5]
    now[0] += 1000
    assert [rates.wait("a") for _ in range(3)] == [0, 0, 0.5]


def test_connections_beyond_the_bound_are_turned_away() -> None:
    with serving(notes(), Limits(connections=4)) as server:
        host = urlsplit(server.url)
        waiting = [socket.create_connection((host.hostname, host.port)) for _ in range(4)]
        assert server.client().send("GET", "/notes").status == 503
        for connection in waiting:
            connection.close()
