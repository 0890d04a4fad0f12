"""A policy answers BFCL's items: greedy, through the generator and the conversations of the rollout engine.

A single-turn item is one turn of the policy. In a multi-turn item the policy calls and reads results until it ends a turn
without a call that can be read; then the user speaks again. As upstream does it, an episode ends unfinished, and wrong, when a
turn of the user has led to more than ``MAX_STEPS`` steps of calls. Where functions are added in the middle, a model that is
given its tools as such (``native``) reads a new prompt that lists them all, with the conversation so far; all other prompts grow
token by token.

Items are answered in batches of a fixed composition, each kept as one file as soon as it is complete: an evaluation that
was killed goes on with the next batch and comes to the same tokens, since no batch knows of another.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slca import params as p
from slca.benchmarks.bfcl.client import Environment
from slca.benchmarks.bfcl.groups import Style
from slca.benchmarks.bfcl.items import Answer, Prediction, Question
from slca.benchmarks.bfcl.prompting import read_calls
from slca.chat import Conversation, Parsed
from slca.chat.base import Message
from slca.files import canonical_json, read_json, write_json
from slca.policy.model import Policy
from slca.records import Call, Json, Plan
from slca.rollouts.generator import Generator, Turn, context, new_generator

MAX_STEPS = 20
"""Upstream's MAXIMUM_STEP_LIMIT."""

BATCH = 64
_ROWS = 16
NOT_ASKED = "not_answered:context"
"""The prompt leaves no room in the policy's context. Wrong in every category: where no call is right, silence is no answer."""


@dataclass
class _Dialogue:
    """One item under way."""

    question: Question
    conversation: Conversation
    turns: list[Plan] = field(default_factory=list)
    steps: list[tuple[Call, ...]] = field(default_factory=list)
    transcript: list[dict[str, Json]] = field(default_factory=list)
    sampled: int = 0
    finish: str = ""
    refused: str = ""

    def answer(self) -> Answer:
        """Of turns that were finished alone: an episode with fewer of them than the item has is unfinished."""
        prediction = Prediction(self.question.item_id, self.question.category, tuple(self.turns), self.refused)
        return Answer(prediction, self.finish, tuple(self.transcript), self.sampled)


class Answering:
    """Answers items with one policy. rollouts: the limits of its turns. environment: executes the calls of multi-turn items."""

    def __init__(self, policy: Policy, rollouts: p.Rollouts, style: Style, environment: Environment) -> None:
        self.policy = policy
        self.rollouts = rollouts
        self.style = style
        self.environment = environment
        self.context = context(policy, rollouts)

    def generator(self) -> Generator:
        return new_generator(self.policy, self.rollouts, 0.0, _ROWS)

    def run(self, questions: Sequence[Question], progress: Callable[[int], None]) -> list[Answer]:
        """The answers in the questions' order; ``progress`` is told how many more there are."""
        dialogues = [self._open(question) for question in questions]
        generator = self.generator()
        going = {}
        for key, dialogue in enumerate(dialogues):
            if not dialogue.finish:
                going[key] = dialogue
                generator.add(key, dialogue.conversation.prompt_ids, self._limit(dialogue), 0)
        progress(len(dialogues) - len(going))
        fresh = len(dialogues)
        while going:
            for key, turn in generator.step():
                dialogue = going[key]
                conversation = dialogue.conversation
                glue = self._follow(dialogue, turn)
                if not dialogue.finish and len(dialogue.conversation.ids) >= self.context:
                    dialogue.finish = "context"
                if dialogue.finish:
                    generator.drop(key)
                    del going[key]
                    progress(1)
                elif dialogue.conversation is conversation:
                    generator.go_on(key, glue, self._limit(dialogue))
                else:
                    generator.drop(key)
                    del going[key]
                    going[fresh] = dialogue
                    generator.add(fresh, dialogue.conversation.prompt_ids, self._limit(dialogue), 0)
                    fresh += 1
        return [dialogue.answer() for dialogue in dialogues]

    def _open(self, question: Question) -> _Dialogue:
        messages = question.turns[0].messages
        dialogue = _Dialogue(question, self._conversation(messages, self._tools(question, 1)))
        dialogue.transcript += messages
        if len(dialogue.conversation.ids) >= self.context:
            dialogue.finish, dialogue.refused = "context", NOT_ASKED
        return dialogue

    def _conversation(self, messages: Sequence[Message], tools: Sequence[dict[str, Json]]) -> Conversation:
        return Conversation(self.policy.format, messages, tools, self.rollouts.on_broken_prefix)

    def _tools(self, question: Question, turns: int) -> tuple[dict[str, Json], ...]:
        """What the chat format lists: the tools of the first ``turns`` turns, or none where the prompt lists them."""
        if self.style == "prompt":
            return ()
        return tuple(tool.to_json() for turn in question.turns[:turns] for tool in turn.tools)

    def _limit(self, dialogue: _Dialogue) -> int:
        return min(self.rollouts.max_turn_tokens, self.context - len(dialogue.conversation.ids))

    def _follow(self, dialogue: _Dialogue, turn: Turn) -> list[int]:
        """Book a turn of the policy; the tokens that lead to its next one, if the dialogue goes on in the same conversation."""
        chat, question = self.policy.format, dialogue.question
        text = chat.turn_text(turn.ids)
        opened = self._read(text, question)
        calls = [
            Call(self._own_name(call.name, question), call.arguments)
            for call in opened
            if call.error is None and call.name and isinstance(call.arguments, dict)
        ]
        dialogue.sampled += len(turn.ids)
        dialogue.transcript.append({"role": "assistant", "content": text, "calls": [call.to_json() for call in calls]})
        full = not turn.ended and len(dialogue.conversation.ids) + len(turn.ids) >= self.context
        if not question.multi_turn:
            dialogue.turns = [(tuple(calls),)]
            dialogue.finish = "stop" if turn.ended else "context" if full else "length"
            return []
        if full:
            dialogue.finish = "context"
            return []
        # A turn that was cut is closed by us, as a server closes it.
        ids, closing = (turn.ids, []) if turn.ended else ([*turn.ids, chat.end_id], [chat.end_id])
        glue = self._execute(dialogue, ids, opened, calls) if calls else self._next(dialogue, ids, text)
        return [*closing, *glue]

    def _read(self, text: str, question: Question) -> tuple[Parsed, ...]:
        if self.style == "native":
            return self.policy.format.parse(text)
        return tuple(Parsed(call.name, call.arguments) for call in read_calls(text, question.language))

    def _own_name(self, name: str, question: Question) -> str:
        """BFCL's name of a tool. A name that was not shown becomes one that BFCL has not either, even if it spells the dots."""
        own = set(question.names.values())
        known = {shown: shown for shown in own} if self.style == "prompt" else question.names
        return known.get(name, f"not offered: {name}")

    def _execute(self, dialogue: _Dialogue, ids: Sequence[int], opened: Sequence[Parsed], calls: Sequence[Call]) -> list[int]:
        """Execute a step's calls and hand the results over."""
        question = dialogue.question
        dialogue.steps.append(tuple(calls))
        results, dialogue.refused = self.environment.execute(
            question.item_id, question.category, [*dialogue.turns, tuple(dialogue.steps)]
        )
        if dialogue.refused:
            dialogue.finish = "refused"
            return []
        dialogue.transcript += [
            {"role": "tool", "name": call.name, "content": result} for call, result in zip(calls, results, strict=True)
        ]
        if len(dialogue.steps) > MAX_STEPS:
            dialogue.finish = "turn_limit"
            return []
        if self.style == "prompt":
            told = [
                {"role": "tool", "name": _written(call), "content": result} for call, result in zip(calls, results, strict=True)
            ]
            return dialogue.conversation.ask(ids, repr(told))
        readable = iter(results)
        answers = [
            f"Error during execution: {call.message or 'no name or no object of arguments'}"
            if call.error is not None or not call.name or not isinstance(call.arguments, dict)
            else next(readable)
            for call in opened
        ]
        return dialogue.conversation.answer(ids, opened, answers)

    def _next(self, dialogue: _Dialogue, ids: Sequence[int], text: str) -> list[int]:
        """The policy is done with a turn of the user: the next one speaks, or it was the last."""
        question, conversation = dialogue.question, dialogue.conversation
        dialogue.turns.append(tuple(dialogue.steps))
        dialogue.steps = []
        number = len(dialogue.turns)
        if number == len(question.turns):
            dialogue.finish = "stop"
            return []
        turn = question.turns[number]
        dialogue.transcript += turn.messages
        (message,) = turn.messages  # of the user, in every turn but the first
        if turn.tools and self.style == "native":
            said = [*conversation.messages, self.policy.format.assistant_message(text), message]
            dialogue.conversation = self._conversation(said, self._tools(question, number + 1))
            return []
        return conversation.ask(ids, message["content"])


def _written(call: Call) -> str:
    """A call as upstream's prompt writes it when it returns its result."""
    return f"{call.name}({', '.join(f'{key}={value!r}' for key, value in call.arguments.items())})"


def answer_all(
    answering: Answering, questions: Sequence[Question], folder: Path | None, progress: Callable[[int], None]
) -> list[Answer]:
    """The answers in the questions' order. folder: where finished batches are kept; those of an earlier run are read.

    The folder must belong to this policy, these questions and settings (``slca.work``).
    """
    sizes = [
        len(canonical_json([turn.messages for turn in question.turns[:1]]))
        + sum(len(canonical_json(tool.to_json())) for tool in question.tools)
        for question in questions
    ]
    order = sorted(range(len(questions)), key=lambda index: (sizes[index], index))  # similar prompts share a batch
    answers: dict[int, Answer] = {}
    for start in range(0, len(order), BATCH):
        batch = order[start : start + BATCH]
        file = None if folder is None else folder / f"answers-{start // BATCH:04d}.json"
        if file is not None and file.exists():
            made = [Answer.from_json(value) for value in read_json(file)]
            progress(len(made))
        else:
            made = answering.run([questions[index] for index in batch], progress)
            if file is not None:
                write_json(file, [answer.to_json() for answer in made])
        answers |= dict(zip(batch, made, strict=True))
    return [answers[index] for index in range(len(questions))]
