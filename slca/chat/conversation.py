"""One conversation as tokens, and as the messages that it says: the two are compared after every turn.

The tokens grow as they were sampled; the messages are what a server would store of them. A full render of the messages must give
the tokens' text: glue is then what the template puts there, and a policy trained on these tokens meets them again
when it is served. Tokens inside a turn are never compared: a policy may spell its text in other tokens than the tokenizer would.

Some templates render an earlier turn otherwise than it was sampled: Qwen3 and DeepSeek strip its reasoning, and each writes a
call's JSON with its own spaces. Then the prefix is broken, and ``on_broken_prefix`` decides: ``keep`` goes on with the tokens as
sampled, which stay the truth for training, and counts the turn; ``fail`` refuses.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from jinja2 import TemplateError

from slca.chat.base import ChatFormat, Message
from slca.chat.reading import Parsed
from slca.errors import DataError

OnBrokenPrefix = Literal["keep", "fail"]
_SHOWN = 40


class Conversation:
    """prompt_ids: the tokens of the first prompt. ids: all tokens so far. broken: turns after which the prefix was broken.

    ``copy.copy`` makes another conversation that goes on by itself: nothing is changed in place.
    """

    def __init__(
        self,
        chat: ChatFormat,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        on_broken_prefix: OnBrokenPrefix = "keep",
    ) -> None:
        self.chat = chat
        self.messages = list(messages)
        self.tools = tools
        self.on_broken_prefix = on_broken_prefix
        self.prompt_ids = chat.prompt_ids(messages, tools)
        self.ids = list(self.prompt_ids)
        self.broken = 0
        self._prompt = chat.render(messages, (), generate=True)

    def answer(self, turn_ids: Sequence[int], calls: Sequence[Parsed], results: Sequence[str]) -> list[int]:
        """Append a sampled turn and the results of its calls. The glue: the tokens that lead to the next turn.

        Raises DataError, with the first difference, where the prefix breaks and ``on_broken_prefix`` is ``fail``.
        """
        glue = self.chat.glue_ids(calls, results, turn_ids)
        self._grow(turn_ids, glue, self.chat.tool_messages(calls, results))
        return glue

    def ask(self, turn_ids: Sequence[int], question: str) -> list[int]:
        """Append a sampled turn and what the user says next. Glue and errors as in ``answer``."""
        glue = self.chat.question_ids(question)
        self._grow(turn_ids, glue, [{"role": "user", "content": question}])
        return glue

    def _grow(self, turn_ids: Sequence[int], glue: Sequence[int], following: Sequence[Message]) -> None:
        self.ids = [*self.ids, *turn_ids, *glue]
        difference = self._told(self.chat.turn_text(turn_ids), following)
        if difference:
            self.broken += 1
            if self.on_broken_prefix == "fail":
                raise DataError(f"The chat template does not render the conversation as it was sampled: {difference}")

    def _told(self, text: str, following: Sequence[Message]) -> str:
        """Append a turn and what follows it to the messages. The difference that a render then shows."""
        before = self.messages
        try:
            self.messages = [*before, self.chat.assistant_message(text), *following]
            return self.difference()
        except TemplateError:  # of several calls in a turn, or text beside calls: such a template takes them as text
            self.messages = [*before, {"role": "assistant", "content": text}, *following]
        try:
            return self.difference()
        except TemplateError as error:
            return f"it is refused ({error})."

    def difference(self) -> str:
        """Where a full render of the messages parts from the tokens behind the prompt, as a sentence; empty where it does not.

        Tools are left out of the render: what the template makes of them is in the prompt, and does not come again.
        """
        rendered = self.chat.render(self.messages, (), generate=True)
        if not rendered.startswith(self._prompt):
            return _parting(self._prompt, rendered)
        rendered = rendered[len(self._prompt) :]
        sampled = self.chat.decode(self.ids[len(self.prompt_ids) :])
        if sampled == rendered:
            return ""
        rendered = self.chat.decode(self.chat.encode(rendered))  # tokenizers that change spaces change them on both sides
        return "" if sampled == rendered else _parting(sampled, rendered)


def _parting(sampled: str, rendered: str) -> str:
    parts = (place for place, (a, b) in enumerate(zip(sampled, rendered, strict=False)) if a != b)
    start = next(parts, min(len(sampled), len(rendered)))
    return f"{sampled[start : start + _SHOWN]!r} was sampled, {rendered[start : start + _SHOWN]!r} is rendered."
