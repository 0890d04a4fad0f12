"""The episodes under way: each has a state of its own, all share one cache.

A session begins with the first request that names it; ``default`` is there from the start. The ``schema`` backend answers in well
under a millisecond, so its calls run in the event loop, one after the other. A model's run in threads, at most
``simulator.concurrency`` at once, one of each session, and whoever looks at a session or changes it takes a turn after its call.
"""

import asyncio
import re
import uuid
from dataclasses import asdict, dataclass, field

import anyio

from slca.errors import SlcaError
from slca.records import Attempt, CallError, Json
from slca.sgls.cache import Cache
from slca.sgls.faults import TIMEOUT
from slca.sgls.server.options import DEFAULT_SESSION, Limits, Service
from slca.sgls.server.refusals import Refused
from slca.sgls.simulator import Answer, Session, error_result

ID_PATTERN = "^[A-Za-z0-9._~:@+-]{1,128}$"


@dataclass
class _Open:
    session: Session
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class Sessions:
    """Raises Refused for an id that cannot be (400), that is not open (404), or where there are too many (429).

    To make one raises what ``Session`` does, and what building the backend does.
    """

    def __init__(self, service: Service, limits: Limits) -> None:
        self._service = service
        self._limits = limits
        self._open: dict[str, _Open] = {}
        self._cache = Cache.of(service.params)
        self._begun(DEFAULT_SESSION, None)  # before the first request, since this may load a model
        self._threads = None if service.params.backend == "schema" else anyio.CapacityLimiter(service.params.concurrency)

    async def call(self, session_id: str, name: Json, arguments: Json) -> Answer:
        """Carry out one call in the session, which begins now if it is new. A late answer is waited for here."""
        entry = self._open.get(session_id)
        if entry is None:
            entry = self._begun(session_id, None)
        try:
            if self._threads is None:
                answer = entry.session.answer(name, arguments)
            else:
                async with entry.turn:
                    answer = await anyio.to_thread.run_sync(
                        entry.session.answer, name, arguments, abandon_on_cancel=True, limiter=self._threads
                    )
        except SlcaError as failure:  # the cache has no answer to replay, or a damaged one
            error = CallError.SIMULATOR_FAILURE
            return Answer(Attempt(None, None, error, error_result(error, str(failure))))
        if answer.fault is not None:
            await asyncio.sleep(self._limits.timeout_seconds if answer.fault.kind == TIMEOUT else answer.fault.delay)
        return answer

    def ids(self) -> list[str]:
        return sorted(self._open)

    async def summary(self, session_id: str) -> dict[str, Json]:
        """The session's counts, and whether some call of it found no valid result."""
        entry = self._known(session_id)
        async with entry.turn:
            return {"id": session_id, "failed": entry.session.failed, **asdict(entry.session.counts)}

    async def state(self, session_id: str) -> Json:
        entry = self._known(session_id)
        async with entry.turn:
            return entry.session.state

    async def reset(self, session_id: str) -> None:
        """Back to the service's first state; the counts go on. The session begins if it is new."""
        entry = self._open.get(session_id) or self._begun(session_id, None)
        async with entry.turn:
            entry.session.reset()

    async def fork(self, session_id: str, new_id: str | None) -> str:
        """A new session that goes on from here. Raises Refused (409) also for a new id that is open already."""
        entry = self._known(session_id)
        new_id = uuid.uuid4().hex if new_id is None else new_id
        async with entry.turn:
            if new_id in self._open:
                raise Refused(409, "conflict", f"there is a session {new_id!r} already; delete it first.")
            self._begun(new_id, entry.session.fork())
        return new_id

    def end(self, session_id: str) -> None:
        self._known(session_id)
        del self._open[session_id]

    def forget(self, session_id: str) -> None:
        """End the session if it is open."""
        self._open.pop(session_id, None)

    def _known(self, session_id: str) -> _Open:
        entry = self._open.get(session_id)
        if entry is None:
            raise Refused(404, "unknown_session", f"there is no session {session_id[:128]!r}; it begins with its first call.")
        return entry

    def _begun(self, session_id: str, session: Session | None) -> _Open:
        """Open ``session``, or a new one, under the id."""
        if not re.fullmatch(ID_PATTERN, session_id):
            raise Refused(400, "malformed_request", "a session's id has 1 to 128 letters, digits or any of . _ ~ : @ + -")
        if len(self._open) >= self._limits.sessions:
            raise Refused(429, "too_many_sessions", f"{self._limits.sessions} sessions are open; delete some of them.")
        if session is None:  # the id is part of what faults are drawn from
            session = Session(self._service.tools, self._service.state, self._service.params, session_id, self._cache)
        self._open[session_id] = _Open(session)
        return self._open[session_id]
