"""What passes between a simulation and the parties that speak in it, and the guard that stands before tau2.

A party (agent or user) is asked with the whole conversation as it sees it, and answers with text or with calls. Parties work
side by side on many simulations, so asking and answering are apart.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from slca.benchmarks.bfcl.guards import MAX_CALLS, too_large
from slca.records import Call, Json

Message = dict[str, Any]
"""role, content; of a message that calls: calls [{id, name, arguments}]; of a tool's answer: id, error, requestor."""

UNREADABLE = "unreadable_call"
REFUSED = "refused_call"
"""tau2 has no tool of these names, so such a call gets tau2's own error result, and counts as an error of its caller."""

_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_CALCULATE = "calculate"
_EXPRESSION_CHARS = 200
_SMALL_POWER = re.compile(r"[^*]*(\*(?!\*)[^*]*)*(\*\*\s*\d{1,2}(?![\d.(])[^*]*)?(\*(?!\*)[^*]*)*")


@dataclass(frozen=True)
class Case:
    """One task of a domain. gold: (requestor, call) in order, none for some tasks. communicate: what the agent is to say.

    opening: what the user wants and knows. tools: the agent's, as name, description, parameters.
    """

    domain: str
    task_id: str
    opening: str
    gold: tuple[tuple[str, Call], ...]
    communicate: tuple[str, ...]
    tools: tuple[dict[str, Json], ...]


@dataclass(frozen=True)
class Question:
    """What a party is asked: to say something behind ``messages``, of which it may use ``tools``."""

    messages: Sequence[Message]
    tools: Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Answer:
    """content or calls, never both: tau2 shows text beside calls to nobody, and its protocol forbids it.

    end: the party can say nothing more, why; of an agent it is a score of 0. failure: something around the party failed.
    """

    content: str | None = None
    calls: tuple[Call, ...] = ()
    end: str = ""
    failure: str = ""
    tokens: int = field(default=0, compare=False)


class Party(Protocol):
    """Agent or user of many simulations, which it knows by number."""

    def ask(self, key: int, case: Case, trial: int, question: Question) -> None:
        """Something is to be said in simulation ``key``."""

    def answers(self) -> list[tuple[int, Answer]]:
        """Work for a moment; what was said meanwhile."""

    def drop(self, key: int) -> None:
        """Simulation ``key`` has ended, possibly between question and answer."""

    @property
    def working(self) -> bool:
        """Whether ``answers`` has work to do now, rather than something to wait for."""


class Ruled:
    """A party that follows a rule: from simulation, case and question to what it says, at once."""

    def __init__(self, rule: Callable[[int, Case, Question], Answer]) -> None:
        self._rule = rule
        self._said: list[tuple[int, Answer]] = []

    def ask(self, key: int, case: Case, trial: int, question: Question) -> None:
        self._said.append((key, self._rule(key, case, question)))

    def answers(self) -> list[tuple[int, Answer]]:
        said, self._said = self._said, []
        return said

    def drop(self, key: int) -> None:
        self._said = [(asked, answer) for asked, answer in self._said if asked != key]

    @property
    def working(self) -> bool:
        return bool(self._said)


def guarded(answer: Answer) -> Answer:
    """What may reach tau2 of an answer: names that could be a tool's, arguments of bounded size, arithmetic that ends."""
    if answer.end or answer.failure:
        return answer
    if len(answer.calls) > MAX_CALLS:
        return Answer(end=f"more than {MAX_CALLS} calls in one message", tokens=answer.tokens)
    if not answer.calls and not (answer.content or "").strip():
        return Answer(end="empty message", tokens=answer.tokens)
    calls = tuple(_guarded(call) for call in answer.calls)
    return Answer(None if calls else answer.content, calls, tokens=answer.tokens)


def _guarded(call: Call) -> Call:
    arguments: object = call.arguments  # a policy may have written anything
    if not isinstance(arguments, dict) or not all(isinstance(key, str) for key in arguments) or too_large(arguments):
        return Call(REFUSED, {})
    if not _NAME.fullmatch(call.name) or (call.name == _CALCULATE and not _calculable(arguments.get("expression"))):
        return Call(REFUSED, {})
    return call


def _calculable(expression: object) -> bool:
    """Whether tau2 can evaluate the expression in no time. It evaluates Python, where 9**9**9 takes for ever.

    At most one power, of a plain number below 100; anything that is no text is left to tau2, which refuses it.
    """
    if not isinstance(expression, str):
        return True
    return len(expression) <= _EXPRESSION_CHARS and ("**" not in expression or bool(_SMALL_POWER.fullmatch(expression)))
