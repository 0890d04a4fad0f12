"""What every request passes before it is looked at: length of path and query, and the client's rate."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from slca.sgls.server.options import Limits
from slca.sgls.server.refusals import Refused

MOST_CLIENTS = 10_000
"""Client addresses remembered; beyond it the one that was silent longest starts anew."""


class Rates:
    """A token bucket per client: ``per_second`` on average, as many at once (at least one)."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = per_second
        self._most = max(per_second, 1.0)
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str) -> float:
        """0 if the client may go ahead, which takes a token; else the seconds until it may."""
        now = self._clock()
        tokens, then = self._buckets.pop(client, (self._most, now))
        tokens = min(self._most, tokens + (now - then) * self._rate)
        allowed = tokens >= 1.0
        self._buckets[client] = (tokens - 1.0 if allowed else tokens, now)
        if len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1.0 - tokens) / self._rate


class Gate:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app = app
        self._longest = limits.target_bytes
        self._rates = Rates(limits.requests_per_second) if limits.requests_per_second else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (self._app if refusal is None else refusal.response())(scope, receive, send)

    def _refusal(self, scope: Scope) -> Refused | None:
        if len(scope["raw_path"]) + len(scope["query_string"]) > self._longest:
            return Refused(414, "uri_too_long", f"path and query have more than {self._longest} bytes.")
        if self._rates is not None:
            seconds = self._rates.wait(scope["client"][0] if scope.get("client") else "")
            if seconds:
                return Refused(429, "too_many_requests", "too many requests.", {"Retry-After": str(math.ceil(seconds))})
        return None
