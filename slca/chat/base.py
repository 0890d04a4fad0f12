"""A chat format: how a conversation becomes tokens, and how sampled tokens become calls, labels and a reply.

Invariant: prompt ids + sampled ids + glue ids are exactly the tokens that the policy saw; nothing is tokenised twice. Prompts and
glue are rendered by the tokenizer's own chat template. Glue starts behind the token that ended the turn, a special token,
and is tokenised with that token in front, so its ids are those that a render of the whole conversation gives there.

A family of models adds a small file to ``slca.chat.formats``: which tokens it needs, which end a turn, and ``read``, from text
to calls. transformers' ``tokenizer.parse_response`` and TRL's ``parse_response`` are no substitute for ``read``: they give up
on a turn as a whole where one of its calls is malformed or cut off, so that the call becomes text, and they know no call
limits. Here each call that was opened is one ``Parsed``, with its error.
"""

import datetime
import json
import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from jinja2 import TemplateError

from slca.chat.reading import Parsed, Reading, ReadTurn
from slca.chat.segments import MixedTurns, label_turn, token_of
from slca.errors import DataError
from slca.records import Call

Message = Mapping[str, Any]
"""role, content and, where a format has them, tool_calls, reasoning_content, name, tool_call_id: what chat templates read."""

TOOLS = "You may call these functions. Each line gives one function's name, what it does, and the JSON Schema of its parameters."
CALLING = "To call functions, answer with one or more calls in this form; their results come back to you before your next turn:"
"""What the system prompt says of tools where the template says nothing."""

UNNAMED = "unknown"
"""The name under which the result of a call goes back whose own name is missing, or is none that a tool can have."""
_NAME = re.compile(r"[\w.:/-]{1,128}")

_DATE = datetime.date(2024, 7, 26)
_DATED = (
    "{%- macro strftime_now(format) -%}{{- {"
    + ", ".join(f'"{form}": "{_DATE.strftime(form)}"' for form in ("%d %b %Y", "%Y-%m-%d", "%B %d, %Y"))
    + "}[format] -}}{%- endmacro %}"
)
"""Put in front of templates that state today's date: the same input gives the same tokens every day (Llama's own fallback)."""
_MARK = "slcamark"
_GLUE_KEPT = 4096


class ChatFormat(ABC):
    """A tokenizer with a chat template, seen as the rollout engine needs it."""

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]
    """Texts that must be added tokens of the tokenizer."""
    ends: ClassVar[tuple[str, ...]]
    """Texts of the tokens that may end an assistant turn, first the one that ends a turn with calls. The tokenizer's
    end-of-sequence token ends a turn too."""
    reply_end: ClassVar[str] = ""
    """Text of the token that ends a reply, where it is not the first of ``ends``."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        for token in self.needs:
            if token_id(tokenizer, token) is None:
                raise DataError(f"The tokenizer has no added token {token!r}, which chat format {self.name} needs.")
        if tokenizer.chat_template is None:
            raise DataError("The tokenizer has no chat template; set chat_template in its tokenizer_config.json.")
        if tokenizer.pad_token_id is None:
            raise DataError("The tokenizer has no pad token; set pad_token in its tokenizer_config.json.")

    @classmethod
    def fits(cls, tokenizer: Any) -> bool:
        """Whether this is the format of ``tokenizer``."""
        return all(token_id(tokenizer, token) is not None for token in cls.needs)

    @abstractmethod
    def read(self, text: str) -> Reading:
        """What the text of one assistant turn says. Never raises."""

    # Tokens

    @property
    def pad_id(self) -> int:
        return int(self.tokenizer.pad_token_id)

    @cached_property
    def end_id(self) -> int:
        """The token that usually ends a turn with calls."""
        return next(number for end in self.ends if (number := token_id(self.tokenizer, end)) is not None)

    @cached_property
    def stop_ids(self) -> frozenset[int]:
        """Every token that ends an assistant turn."""
        found = {token_id(self.tokenizer, end) for end in self.ends} | {self.tokenizer.eos_token_id}
        return frozenset(number for number in found if number is not None)

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ``ids``, markers included; bytes that form no character become U+FFFD."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))

    # Rendering

    def render(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], generate: bool) -> str:
        """The conversation as text. ``tools`` are definitions as ``Tool.to_json`` writes them."""
        functions = [
            {"type": "function", "function": {key: tool.get(key, "") for key in ("name", "description", "parameters")}}
            for tool in tools
        ]
        if functions and not self.writes_tools:
            messages, functions = self._with_tools(messages, functions), []
        return self._apply_template(messages, functions, generate)

    def prompt_ids(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[int]:
        return self.encode(self.render(messages, tools, generate=True))

    def glue_ids(self, calls: Sequence[Call | Parsed], results: Sequence[str], turn_ids: Sequence[int] = ()) -> list[int]:
        """Tokens between the last sampled token of a turn and the first of the next: the results of its calls, in order.

        turn_ids: the turn as sampled, for formats whose glue depends on the token that ended it. The glue of the others is the
        same behind every stop token, though the template may know only one of them.
        """
        return list(self._glue_ids(tuple(self._placed(calls)), tuple(results)))

    def glue_text(self, calls: Sequence[Call | Parsed], results: Sequence[str]) -> str:
        """What the template puts behind a turn that makes ``calls``, from its end-of-turn token (left out) to the next turn."""
        mark = _MARK
        while any(mark in text for text in (*results, *map(shown_name, calls))):
            mark += "k"
        told = self.tool_messages(calls, results)
        messages = [{"role": "user", "content": "."}, self._marked_turn(calls, mark), *told]
        try:
            rendered = self.render(messages, (), generate=True)
        except TemplateError:  # several calls in one turn, or a turn without text: some templates refuse those
            messages[1] = {"role": "assistant", "content": mark}
            rendered = self._render_or_refuse(messages)
        start = self._glue_start(rendered, rendered.rindex(mark) + len(mark))
        if start < 0:
            raise DataError(f"The chat template ends an assistant turn with none of {', '.join(self.ends)}.")
        return rendered[start:]

    def question_ids(self, question: str) -> list[int]:
        """Tokens between the last sampled token of a turn that called nothing and the first of the next: what the user says."""
        mark = _MARK
        while mark in question:
            mark += "k"
        rendered = self._render_or_refuse(
            [{"role": "user", "content": "."}, {"role": "assistant", "content": mark}, {"role": "user", "content": question}]
        )
        start = self._question_start(rendered, rendered.rindex(mark) + len(mark))
        if start < 0:
            raise DataError(f"The chat template ends an assistant turn with none of {', '.join(self.ends)}.")
        return self._encode_behind_end(rendered[start:])

    def call_text(self, calls: Sequence[Call]) -> str:
        """How the model's template writes a turn that makes ``calls``, without its end-of-turn token. Demonstrations say this."""
        results = [""] * len(calls)
        asked: list[Message] = [{"role": "user", "content": "."}]
        prompt = self._render_or_refuse(asked)
        rendered = self._render_or_refuse([*asked, self._calling_turn(calls), *self.tool_messages(calls, results)])
        behind = self.decode([self.end_id]) + self.glue_text(calls, results)
        if not (rendered.startswith(prompt) and rendered.endswith(behind)):
            raise DataError(f"The chat template does not write {len(calls)} calls as a turn of its own.")
        return rendered[len(prompt) : len(rendered) - len(behind)]

    def assistant_message(self, text: str) -> Message:
        """A sampled turn as a server would store it and hand it to the template again.

        A turn whose calls can all be read becomes text, reasoning and calls, where the template writes calls; any other stays
        the text that it is.
        """
        reading = self.read(text)
        calls = [Call(c.name, c.arguments) for c in reading.calls if c.name and not c.error and isinstance(c.arguments, dict)]
        if not self.writes_calls or not calls or len(calls) < len(reading.calls):
            return {"role": "assistant", "content": text}
        return {
            **self._calling_turn(reading.calls),
            "content": self.visible_text(text, reading),
            **({"reasoning_content": reading.reasoning} if reading.reasoning else {}),
        }

    def call_turn(self, calls: Sequence[Call]) -> list[int]:
        """A whole turn that makes ``calls``, in the tokenizer's own tokens: what a demonstration teaches."""
        return self._turn(self.call_text(calls), self.ends[0])

    def reply_turn(self, reply: str) -> list[int]:
        """A whole turn that says ``reply``, in the tokenizer's own tokens."""
        return self._turn(reply, self.reply_end or self.ends[0])

    def _turn(self, text: str, end: str) -> list[int]:
        """Encoded behind a special token: some tokenizers put a space in front of what begins a text, and a turn begins none."""
        return self._encode_behind_end(text + end)

    @cached_property
    def writes_tools(self) -> bool:
        """Whether the template lists tools; where it does not, the system prompt does."""
        name = "probe_of_tools"
        tool = {
            "type": "function",
            "function": {"name": name, "description": "", "parameters": {"type": "object", "properties": {}}},
        }
        return name in self._apply_template([{"role": "user", "content": "."}], [tool], True)

    @cached_property
    def writes_calls(self) -> bool:
        """Whether the template renders ``tool_calls``."""
        name = "probe_of_calls"
        turn = self._calling_turn([Call(name, {})])
        try:
            return name in self.render([{"role": "user", "content": "."}, turn], (), generate=False)
        except TemplateError:
            return False

    # Reading

    def turn_text(self, ids: Sequence[int]) -> str:
        """The text of one sampled turn, without the token that ended it."""
        return self.decode(ids[:-1] if ids and ids[-1] in self.stop_ids else ids)

    def parse(self, text: str) -> tuple[Parsed, ...]:
        """Every call that a turn's text opens, in order. Never raises."""
        return self.read(text).calls

    def read_turn(self, ids: Sequence[int], mixed_turns: MixedTurns) -> ReadTurn:
        """The sampled tokens of one turn, its end-of-turn token included: what they say, their labels and calls."""
        text = self.turn_text(ids)
        reading = self.read(text)
        labels = label_turn(
            len(ids), reading, mixed_turns, lambda character: token_of(self.decode, ids, self.decode(ids), character)
        )
        call_of = np.full(len(ids), -1)
        for call, first in enumerate(self._opening_tokens(ids, len(reading.calls))):
            call_of[first:] = call
        return ReadTurn(text, reading.calls, labels, call_of)

    def _opening_tokens(self, ids: Sequence[int], calls: int) -> list[int]:
        """The places in ``ids`` of the tokens that open their ``calls`` calls.

        Which token does is what ``read`` says of the text up to there, found by bisection, since text only opens calls and closes
        none.
        """
        return [
            bisect_right(range(len(ids)), call, key=lambda place: len(self.parse(self.turn_text(ids[: place + 1]))))
            for call in range(calls)
        ]

    def reply_text(self, text: str) -> str:
        """What the user reads of a turn: its text without calls, reasoning and markup."""
        return self.visible_text(text, self.read(text))

    @staticmethod
    def visible_text(text: str, reading: Reading) -> str:
        return "".join(text[start:end] for start, end in reading.visible).strip()

    # What formats may change

    def _glue_start(self, rendered: str, turn: int) -> int:
        """Where glue starts in a render of a turn and its results: behind the first end-of-turn token from ``turn`` on, or -1."""
        found = [place + len(end) for end in self.ends if (place := rendered.find(end, turn)) >= 0]
        return min(found, default=-1)

    def _question_start(self, rendered: str, turn: int) -> int:
        """The same for a turn that called nothing."""
        return ChatFormat._glue_start(self, rendered, turn)

    def _with_tools(self, messages: Sequence[Message], functions: Sequence[Mapping[str, Any]]) -> list[Message]:
        """Messages whose system prompt lists the tools, for templates that do not."""
        listed = "\n".join(json.dumps(function["function"], ensure_ascii=False) for function in functions)
        example = self.call_text([Call("name", {"parameter": "value"})])
        prompt = f"{TOOLS}\n\n{listed}\n\n{CALLING}\n\n{example}"
        if messages and messages[0]["role"] == "system":
            return [{**messages[0], "content": f"{messages[0]['content']}\n\n{prompt}"}, *messages[1:]]
        return [{"role": "system", "content": prompt}, *messages]

    def _calling_turn(self, calls: Sequence[Call | Parsed]) -> Message:
        """An assistant message that makes ``calls`` and says nothing."""
        return {"role": "assistant", "content": "", "tool_calls": [self._tool_call(i, call) for i, call in enumerate(calls)]}

    def _tool_call(self, index: int, call: Call | Parsed) -> dict[str, Any]:
        function = {"name": call.name or UNNAMED, "arguments": call.arguments}
        return {"id": self._call_id(index, call), "type": "function", "function": function}

    def _call_id(self, index: int, call: Call | Parsed) -> str:
        """The call's own id, else its place in the turn, in nine letters and digits, which every template takes."""
        return (call.id if isinstance(call, Parsed) else "") or f"call{index:05d}"

    def tool_messages(self, calls: Sequence[Call | Parsed], results: Sequence[str]) -> list[Message]:
        """The results of a turn's calls, as the template reads them."""
        return [
            {"role": "tool", "name": shown_name(call), "tool_call_id": self._call_id(index, call), "content": result}
            for index, (call, result) in enumerate(zip(calls, results, strict=True))
        ]

    # Details

    def _apply_template(self, messages: Sequence[Message], functions: Sequence[Mapping[str, Any]], generate: bool) -> str:
        template = self.tokenizer.get_chat_template(tools=list(functions) or None)
        rendered = self.tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            tools=list(functions) or None,
            chat_template=_DATED + template if "strftime_now" in template else template,
            tokenize=False,
            add_generation_prompt=generate,
        )
        return str(rendered)

    def _marked_turn(self, calls: Sequence[Call | Parsed], mark: str) -> Message:
        """A turn that makes ``calls``, with ``mark`` as the last thing that it says."""
        if not self.writes_calls:
            return {"role": "assistant", "content": mark}
        return self._calling_turn([Parsed(shown_name(call), {mark: mark}, id=getattr(call, "id", "")) for call in calls])

    @cached_property
    def _glue_ids(self) -> Callable[[tuple[Parsed, ...], tuple[str, ...]], tuple[int, ...]]:
        """Remembered, since the members of a group often make the same calls and read the same results."""

        @lru_cache(maxsize=_GLUE_KEPT)
        def glue(calls: tuple[Parsed, ...], results: tuple[str, ...]) -> tuple[int, ...]:
            return tuple(self._encode_behind_end(self.glue_text(calls, results)))

        return glue

    def _placed(self, calls: Sequence[Call | Parsed]) -> list[Parsed]:
        """What glue says of calls: their names and ids."""
        return [Parsed(shown_name(call), None, id=self._call_id(index, call)) for index, call in enumerate(calls)]

    def _render_or_refuse(self, messages: Sequence[Message]) -> str:
        try:
            return self.render(messages, (), generate=True)
        except TemplateError as error:
            raise DataError(f"The chat template cannot render a conversation with tool calls: {error}") from None

    def _encode_behind_end(self, text: str) -> list[int]:
        end = self.decode([self.end_id])
        ids = self.encode(end + text)
        if ids[:1] != [self.end_id]:
            raise DataError(f"The tokenizer does not keep {end!r} apart from the text behind it.")
        return ids[1:]


def shown_name(call: Call | Parsed) -> str:
    """The name that may stand in glue: what a policy wrote there must not become a marker."""
    return call.name if call.name and _NAME.fullmatch(call.name) else UNNAMED


def token_id(tokenizer: Any, text: str) -> int | None:
    """The id of the added token ``text``, which no merge reaches across; None where it is none, even if it merges into one."""
    found = tokenizer.get_added_vocab().get(text)
    return None if found is None else int(found)
