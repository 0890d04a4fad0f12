"""Executing the calls of turns, beside generation where that is worth a thread.

A turn's calls run one after the other, since each may change the state that the next one meets; turns of different rollouts share
nothing but answers (``slca.sgls.cache``). So neither the number of threads nor the order in which they finish changes a result.
"""

from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import TracebackType

from slca import params as p
from slca.chat import Parsed
from slca.records import Attempt, CallError
from slca.sgls.simulator import Session, error_result

Attempts = tuple[Attempt, ...]


def threads_for(simulator: p.Simulator) -> int:
    """0, inline, for the embedded backend: its answers take microseconds, and inline work is repeatable to the last bit.

    Else ``simulator.concurrency``: a model or a server is waited for while others generate.
    """
    return 0 if simulator.backend == "schema" else simulator.concurrency


def execute(session: Session, calls: Sequence[Parsed], most: int) -> Attempts:
    """One result for every call that was opened, in order; none is dropped in silence. Those beyond ``most`` get an error."""
    attempts = []
    for index, call in enumerate(calls):
        if call.error is not None:
            attempts.append(Attempt(call.name, call.arguments, call.error, error_result(call.error, call.message)))
        elif index >= most:
            result = error_result(CallError.OVER_LIMIT, f"at most {most} calls in one turn")
            attempts.append(Attempt(call.name, call.arguments, CallError.OVER_LIMIT, result))
        else:
            attempts.append(session.call(call.name, call.arguments))
    return tuple(attempts)


class Executor:
    """Executes turns' calls, in ``threads`` threads; with 0, at once. A context: on leaving it, what was not begun is dropped."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, "calls") if threads else None
        self._running: dict[int, Future[Attempts]] = {}

    def __enter__(self) -> "Executor":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._pool:
            self._pool.shutdown(cancel_futures=True)

    def start(self, key: int, session: Session, calls: Sequence[Parsed], most: int) -> None:
        """Execute the calls of a turn of rollout ``key``."""
        if self._pool and calls:
            self._running[key] = self._pool.submit(execute, session, calls, most)
            return
        done: Future[Attempts] = Future()
        done.set_result(execute(session, calls, most))
        self._running[key] = done

    def finished(self, wait_for_one: bool) -> list[tuple[int, Attempts]]:
        """What has been executed since the last time, in the order in which it was started. What a call raised is raised here."""
        if wait_for_one:
            wait(self._running.values(), return_when=FIRST_COMPLETED)
        done = [key for key, future in self._running.items() if future.done()]
        return [(key, self._running.pop(key).result()) for key in done]
