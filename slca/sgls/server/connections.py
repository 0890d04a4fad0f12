"""uvicorn's HTTP protocol, bounded where it is not: how long and how late the head of a request may be.

uvicorn leaves both to a proxy in front of it. Here nothing stands in front: without these bounds one connection could send a
header without end, and any number could send one byte each and wait. Without httptools, uvicorn's h11 bounds the length alone.
"""

import asyncio

from slca.sgls.server.options import Limits


def protocol(limits: Limits) -> type[asyncio.Protocol]:
    """The protocol class for ``uvicorn.Config(http=...)``."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol

        return H11Protocol

    class Bounded(HttpToolsProtocol):
        _deadline: asyncio.TimerHandle | None = None
        _in_head = True
        _head_bytes = 0

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._expect_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._expect_nothing()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._head_bytes += len(data)
            if self._in_head and self._head_bytes > limits.head_bytes and not self.transport.is_closing():
                self.send_400_response(f"The head of the request has more than {limits.head_bytes} bytes.")

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._expect_head()

        def on_headers_complete(self) -> None:
            self._expect_nothing()
            super().on_headers_complete()

        def _expect_head(self) -> None:
            self._expect_nothing()
            self._in_head, self._head_bytes = True, 0
            self._deadline = self.loop.call_later(limits.arrival_seconds, self.timeout_keep_alive_handler)

        def _expect_nothing(self) -> None:
            self._in_head = False
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return Bounded
