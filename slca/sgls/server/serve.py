"""Runs the server: uvicorn on one socket, until SIGTERM or SIGINT.

Standard error gets one line when the first request can be sent: ``serving 12 tools at http://127.0.0.1:8080``. On a signal the
socket closes, requests in flight have ``limits.grace_seconds`` to end (then they read 503), and ``serve`` returns; only what has
been asked of a model's server is waited for longer, at most ``simulator.timeout``. uvloop and httptools are used where they are
installed.
"""

import logging
import signal
import socket
import sys
from ipaddress import ip_address

from slca.errors import MissingDependency, SlcaError
from slca.sgls.server.options import Limits, Service

LOOPBACK = "127.0.0.1"


def serve(service: Service, host: str = LOOPBACK, port: int = 0, limits: Limits | None = None) -> None:
    """Serve until a signal. port 0: any free one. To be called in the main thread, which receives the signals.

    Raises MissingDependency without the packages of the extra ``server``, SlcaError for an address that cannot be bound, and
    what ``app`` raises.
    """
    try:
        import uvicorn

        from slca.sgls.server.app import app
        from slca.sgls.server.connections import protocol
    except ImportError as error:
        raise MissingDependency(f"Serving needs the package {error.name}; run: pip install 'slca[server]'.") from None

    limits = limits or Limits()
    application = app(service, limits, host)
    listening = _bound(host, port)
    address = listening.getsockname()
    shown = f"[{address[0]}]" if listening.family == socket.AF_INET6 else address[0]

    class Announced(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if not ip_address(address[0]).is_loopback:
                print(f"note: {shown} can be reached from other machines, and nothing asks who they are.", file=sys.stderr)
            print(f"serving {len(service.tools)} tools at http://{shown}:{address[1]}", file=sys.stderr, flush=True)

    logging.getLogger("mcp").setLevel(logging.ERROR)  # it warns of every refused request; the client has been told
    config = uvicorn.Config(
        application,
        http=protocol(limits),
        ws="none",
        proxy_headers=False,  # nothing stands in front, so a client could claim any address
        lifespan="on",
        log_level="error",
        access_log=False,
        server_header=False,
        limit_concurrency=limits.connections + 1,  # it refuses from this one on
        timeout_graceful_shutdown=max(1, round(limits.grace_seconds)),
    )
    # uvicorn raises each signal again once it has shut down; that must not end the process before its caller has finished.
    previous = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        Announced(config).run(sockets=[listening])
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        listening.close()


def _bound(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise SlcaError(f"--port must be from 0 (any free port) to 65535, not {port}.")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        raise SlcaError(f"Port {port} of {host} cannot be served: {error}; choose another with --host and --port.") from None
    return bound
