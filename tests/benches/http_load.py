"""Load on an HTTP server, from a process of its own: python http_load.py URL CONNECTIONS SECONDS [PER_SECOND]

Reads, lists and changes of notes, and calls by name, each connection in a session of its own. Without PER_SECOND each sends as
soon as the last answer is there: the most that the server can do. With it the requests of all connections are due at that rate,
and latency counts from when a request was due, however late the one before it was answered. Prints one line of JSON: requests
per second, and percentiles of the latency in milliseconds. The client speaks just enough HTTP for that, since a full client
library would cost more than the server.
"""

import asyncio
import json
import sys
import time
from urllib.parse import urlsplit


def _request(method: str, path: str, session: str, body: bytes = b"") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nX-SLCA-Session: {session}\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


class Connection(asyncio.Protocol):
    """Sends its requests in turn until ``end``, one every ``interval`` seconds; ``latencies``: seconds of each."""

    def __init__(self, number: int, start: float, end: float, interval: float) -> None:
        session = f"bench-{number}"
        self.requests = [
            _request("GET", "/notes/first", session),
            _request("GET", "/notes?min-stars=2", session),
            _request("POST", "/tools/read_note", session, b'{"note_id": "first"}'),
            _request("PATCH", "/notes/first", session, b'{"stars": 3}'),
            _request("GET", "/notes/words?text=abc", session),
        ]
        self.due, self.end, self.interval = start, end, interval
        self.latencies: list[float] = []
        self.done = asyncio.get_running_loop().create_future()
        self.received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._next(time.perf_counter())

    def _next(self, now: float) -> None:
        self.due = self.due + self.interval if self.interval else now
        if self.due > now:
            asyncio.get_running_loop().call_later(self.due - now, self._send)
        else:
            self._send()

    def _send(self) -> None:
        self.transport.write(self.requests[len(self.latencies) % len(self.requests)])

    def data_received(self, data: bytes) -> None:
        self.received += data
        head, found, body = self.received.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return
        if not head.startswith(b"HTTP/1.1 200"):
            self.transport.abort()
            self.done.set_exception(RuntimeError(f"{head!r} {body!r}"))
            return
        self.received = b""
        now = time.perf_counter()
        self.latencies.append(now - self.due)
        if now < self.end:
            self._next(now)
        else:
            self.done.set_result(None)
            self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the server closed the connection"))


async def load(url: str, connections: int, seconds: float, per_second: float = 0.0) -> dict[str, float]:
    """Requests per second, and percentiles of the latency in milliseconds."""
    loop, address = asyncio.get_running_loop(), urlsplit(url)
    interval = connections / per_second if per_second else 0.0
    start = time.perf_counter()
    opened = []
    for number in range(connections):
        first = start + interval * (number / connections - 1)  # the connections' requests are due in turn
        client = Connection(number, first, start + seconds, interval)
        await loop.create_connection(lambda client=client: client, address.hostname, address.port)
        opened.append(client)
    await asyncio.gather(*(connection.done for connection in opened))
    elapsed = time.perf_counter() - start
    latencies = sorted(1000 * latency for connection in opened for latency in connection.latencies)
    percentiles = {f"p{share}": round(latencies[int(len(latencies) * share / 100)], 2) for share in (50, 95, 99)}
    return {"requests_per_second": round(len(latencies) / elapsed, 1), **percentiles, "max": round(latencies[-1], 2)}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(load(sys.argv[1], int(sys.argv[2]), *map(float, sys.argv[3:])))))
