"""A policy as agent, or a model as user: prompts, sampling and parsing are those of rollouts.

Every turn reads what a chat server would give it, the template's rendering of the whole conversation. Where that begins with
the tokens that were sampled and read so far, it goes on behind them; where it does not (a template that strips earlier
reasoning, another spelling of a turn), it is computed anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import TemplateError

from slca import params as p
from slca.benchmarks.tau2.protocol import REFUSED, UNREADABLE, Answer, Case, Message, Question
from slca.chat import ChatFormat, Parsed
from slca.errors import DataError
from slca.files import derive_seed
from slca.policy.model import Policy
from slca.records import Call
from slca.rollouts.generator import Generator, Turn, context

ChatMessage = dict[str, Any]


@dataclass
class _Conversation:
    """messages: as the template reads them. seen: messages of the simulation that are in them, the own answer included."""

    case: Case
    trial: int
    tools: Sequence[dict[str, Any]]
    messages: list[ChatMessage]
    seen: int
    ids: list[int]
    row: int = -1
    turns: int = 0
    text: str = ""
    calls: tuple[Parsed, ...] = ()


class ModelParty:
    """Speaks with one policy, through ``generator``. rollouts: limits of turn and context. role: agent or user; enters seeds."""

    def __init__(self, policy: Policy, generator: Generator, role: str, rollouts: p.Rollouts, seed: int) -> None:
        self._chat: ChatFormat = policy.format
        self._generator = generator
        self._role = role
        self._max_tokens = rollouts.max_turn_tokens
        self._context = context(policy, rollouts)
        self._seed = seed
        self._talks: dict[int, _Conversation] = {}
        self._by_row: dict[int, int] = {}  # the generator's number -> the simulation's, while a turn is sampled
        self._rows = 0
        self._said: list[tuple[int, Answer]] = []

    def ask(self, key: int, case: Case, trial: int, question: Question) -> None:
        talk = self._talks.get(key)
        if talk is None:
            messages, ids = self._opened(question)
            talk = self._talks[key] = _Conversation(case, trial, question.tools, messages, 0, [])
        else:
            ids = self._continued(talk, question)
        talk.seen = len(question.messages) + 1
        if len(ids) >= self._context:
            self._said.append((key, Answer(end="context")))
            return
        limit = min(self._max_tokens, self._context - len(ids))
        if talk.row >= 0 and ids[: len(talk.ids)] == talk.ids and len(ids) > len(talk.ids):
            self._generator.go_on(talk.row, ids[len(talk.ids) :], limit)
        else:
            if talk.row >= 0:
                self._generator.drop(talk.row)
            talk.row, self._rows = self._rows, self._rows + 1
            seed = derive_seed(f"tau2 {self._role}", self._seed, case.domain, case.task_id, trial, talk.turns)
            self._generator.add(talk.row, ids, limit, seed)
        talk.ids = ids
        self._by_row[talk.row] = key

    def answers(self) -> list[tuple[int, Answer]]:
        said, self._said = self._said, []
        if self._by_row:
            for row, turn in self._generator.step():
                key = self._by_row.pop(row)
                said.append((key, self._spoken(self._talks[key], turn)))
        return said

    def drop(self, key: int) -> None:
        talk = self._talks.pop(key, None)
        self._said = [(asked, answer) for asked, answer in self._said if asked != key]
        if talk is not None and talk.row >= 0:
            self._settle(talk.row)
            self._generator.drop(talk.row)

    def _settle(self, row: int) -> None:
        """A row can only be dropped between turns: sample the one under way to its end. Others that end with it are kept."""
        while row in self._by_row:
            for ended, turn in self._generator.step():
                key = self._by_row.pop(ended)
                if ended != row:
                    self._said.append((key, self._spoken(self._talks[key], turn)))

    @property
    def working(self) -> bool:
        return bool(self._by_row or self._said)

    # Prompts

    def _opened(self, question: Question) -> tuple[list[ChatMessage], list[int]]:
        """The first prompt. Templates that let no assistant speak first get none of upstream's greeting."""
        messages = self._shown(question.messages)
        told = [message for message in messages if message["role"] == "system"]
        spoken = messages[len(told) :]
        silent = spoken[1:] if spoken and spoken[0]["role"] == "assistant" else spoken
        for tried in (messages, [*told, *silent]):
            try:
                return tried, self._chat.prompt_ids(tried, question.tools)
            except TemplateError as error:
                problem = error
        raise DataError(f"The chat template does not render the beginning of a tau2 conversation: {problem}")

    def _continued(self, talk: _Conversation, question: Question) -> list[int]:
        """The next prompt: the own turn as a server stores it, then what came behind it."""
        new = question.messages[talk.seen :]
        results = [message["content"] or "" for message in new if message["role"] == "tool"]
        others = [message for message in new if message["role"] != "tool"]
        told = [*(self._chat.tool_messages(talk.calls, results) if talk.calls else ()), *self._shown(others)]
        before = talk.messages
        try:
            talk.messages = [*before, dict(self._chat.assistant_message(talk.text)), *map(dict, told)]
            return self._chat.prompt_ids(talk.messages, talk.tools)
        except TemplateError:  # of several calls in a turn, or text beside calls: such a template takes them as text
            talk.messages = [*before, {"role": "assistant", "content": talk.text}, *map(dict, told)]
        try:
            return self._chat.prompt_ids(talk.messages, talk.tools)
        except TemplateError as error:
            raise DataError(f"The chat template does not render a tau2 conversation: {error}") from None

    def _shown(self, messages: Sequence[Message]) -> list[ChatMessage]:
        """Messages that were not sampled here: system, greeting, the other party's, a task's history with its calls."""
        calls: tuple[Parsed, ...] = ()
        results: list[str] = []
        shown: list[ChatMessage] = []
        for message in messages:
            text = message["content"] or ""
            if message["role"] == "tool":
                results.append(text)
                if len(results) == len(calls):  # some formats put the results of a turn into one message
                    shown += map(dict, self._chat.tool_messages(calls, results))
            elif message.get("calls"):
                written = self._chat.call_text([Call.from_json(call) for call in message["calls"]])
                calls, results = self._chat.parse(written), []
                shown.append(dict(self._chat.assistant_message(written)))
            else:
                shown.append({"role": message["role"], "content": text})
        return shown

    # Turns

    def _spoken(self, talk: _Conversation, turn: Turn) -> Answer:
        """A sampled turn as an answer. Every call that it opens is made, so that each gets a result; text beside calls is not."""
        talk.ids = [*talk.ids, *turn.ids]
        talk.turns += 1
        if not turn.ended:
            end = "context" if len(talk.ids) >= self._context else "length"
            return Answer(end=end, tokens=len(turn.ids))
        talk.text = self._chat.turn_text(turn.ids)
        reading = self._chat.read(talk.text)
        talk.calls = reading.calls
        calls = tuple(_call(parsed) for parsed in reading.calls)
        return Answer(None if calls else self._chat.visible_text(talk.text, reading), calls, tokens=len(turn.ids))


def _call(parsed: Parsed) -> Call:
    if parsed.error is not None or not parsed.name:
        return Call(UNREADABLE, {})
    return Call(parsed.name, parsed.arguments) if isinstance(parsed.arguments, dict) else Call(REFUSED, {})
