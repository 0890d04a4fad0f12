"""Plays simulations side by side: the worker's processes ask, agent and user answer, until each has its result.

While one simulation waits for tau2 or for a user's server, others generate, so a policy's batches stay full. What happens
when has no part in what a simulation becomes.
"""

import selectors
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slca.benchmarks.tau2.link import STEP_SECONDS, Line, Worker
from slca.benchmarks.tau2.protocol import Answer, Case, Party, Question, guarded
from slca.records import Json

_WAIT = 0.02
"""Seconds to wait for a socket where no party has work to do: what waits for a server is asked for this often."""


@dataclass(frozen=True)
class Game:
    """One simulation to be played."""

    case: Case
    trial: int


@dataclass(frozen=True)
class Played:
    """score: the official reward; None where the harness failed, and ``error`` says how. turns: as in a ``Trace``."""

    score: float | None
    error: str
    finish: str
    turns: tuple[dict[str, Json], ...] = ()
    sampled_tokens: int = 0


def play(
    worker: Worker,
    games: Sequence[Game],
    agent: Party,
    user: Party,
    max_steps: int,
    lanes: int,
    done: Callable[[int, Played], None],
    step_seconds: float = STEP_SECONDS,
) -> None:
    """Play ``games``, ``lanes`` at once; ``done`` hears of each, by its number, when it has ended. Raises SlcaError."""
    _Table(worker, games, {"agent": agent, "user": user}, max_steps, step_seconds, done).run(lanes)


class _Table:
    def __init__(
        self,
        worker: Worker,
        games: Sequence[Game],
        parties: Mapping[str, Party],
        max_steps: int,
        step_seconds: float,
        done: Callable[[int, Played], None],
    ) -> None:
        self._worker = worker
        self._games = games
        self._parties = parties
        self._limits = {"max_steps": max_steps, "step_seconds": step_seconds}
        self._done = done
        self._lines: dict[int, Line] = {}
        self._tokens: dict[int, int] = {}
        self._selector = selectors.DefaultSelector()

    def run(self, lanes: int) -> None:
        waiting = deque(range(len(self._games)))
        try:
            while waiting or self._lines:
                while waiting and len(self._lines) < lanes:
                    self._start(waiting.popleft())
                working = any(party.working for party in self._parties.values())
                for ready, _ in self._selector.select(0 if working else _WAIT):
                    self._hear(ready.data)
                for role, party in self._parties.items():
                    for key, answer in party.answers():
                        self._say(key, role, answer)
        finally:
            for line in self._lines.values():
                line.close()
            self._selector.close()

    def _start(self, key: int) -> None:
        case = self._games[key].case
        line = self._worker.start({"domain": case.domain, "task_id": case.task_id, **self._limits})
        self._lines[key], self._tokens[key] = line, 0
        self._selector.register(line, selectors.EVENT_READ, key)

    def _hear(self, key: int) -> None:
        """A question, a result, or the end of the process."""
        try:
            message = self._lines[key].receive()
        except (EOFError, ValueError):
            self._worker.check()
            self._end(key, Played(None, "the simulation's process ended before its result", "infrastructure"))
            return
        if message is None:
            self._watch(key)
            return
        if "ask" in message:
            game = self._games[key]
            self._parties[message["ask"]].ask(key, game.case, game.trial, Question(message["messages"], message["tools"]))
        elif "failure" in message:
            self._end(key, Played(None, message["failure"], "infrastructure"))
        else:
            self._end(key, Played(message["score"], message["error"], message["finish"], tuple(message["turns"])))

    def _say(self, key: int, role: str, answer: Answer) -> None:
        if role == "agent":
            self._tokens[key] += answer.tokens
        self._lines[key].send(_line(role, guarded(answer)))
        self._watch(key)

    def _watch(self, key: int) -> None:
        """Wait for the process to speak, and to take what it has not taken yet."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._lines[key].pending else 0)
        self._selector.modify(self._lines[key], events, key)

    def _end(self, key: int, played: Played) -> None:
        self._selector.unregister(self._lines[key])
        self._lines.pop(key).close()
        for party in self._parties.values():
            party.drop(key)
        tokens = self._tokens.pop(key)
        self._done(key, Played(played.score, played.error, played.finish, played.turns, tokens))


def _line(role: str, answer: Answer) -> dict[str, Any]:
    """What the worker is told. A user that has nothing more to say is no fault of the policy."""
    if answer.failure or (answer.end and role == "user"):
        return {"failure": f"the {role} failed: {answer.failure or answer.end}"}
    if answer.end:
        return {"end": answer.end}
    return {"content": answer.content, "calls": [call.to_json() for call in answer.calls]}
