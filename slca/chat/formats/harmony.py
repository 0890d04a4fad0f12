"""GPT-OSS (harmony): messages on channels; a call is a message with a recipient, ``to=functions.name``, ended by ``<|call|>``.

A turn is a row of messages, all sampled: ``<|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>commentary
to=functions.f <|constrain|>json<|message|>{...}<|call|>``. The recipient may stand in front of the channel, as the template
writes it, or behind it, as the model samples it; the two are different tokens, so a render of the second is a broken prefix.
``analysis`` is reasoning; ``final``, and ``commentary`` without a recipient, are what the user reads. A message whose header was
never finished, or whose JSON was not, is an unclosed call.

The template takes one call per turn, and names every result after it, so glue is written here, message by message,
in the template's words (results as JSON strings); for one call the two agree. It drops the analysis of a turn once a final
message follows. TRL's schema reads the template's order alone.
"""

import json
import re
from collections.abc import Sequence

from slca.chat.base import ChatFormat, Message, shown_name
from slca.chat.reading import Parsed, Reading, Span, json_end, strict_json
from slca.records import Call, CallError

START, CHANNEL, MESSAGE, END, CALL, RETURN = (f"<|{name}|>" for name in ("start", "channel", "message", "end", "call", "return"))
NAMESPACE = "functions."

_STOPS = re.compile("|".join(re.escape(token) for token in (END, CALL, RETURN, START)))
_RECIPIENT = re.compile(r"(?:^|[\s>])to=([^\s<]*)")
_CHANNEL = re.compile(re.escape(CHANNEL) + r"\s*([a-z]*)")


class Harmony(ChatFormat):
    name = "harmony"
    needs = (START, CHANNEL, MESSAGE, END, CALL, RETURN)
    ends = (CALL, RETURN)

    def read(self, text: str) -> Reading:
        calls: list[Parsed] = []
        visible: list[Span] = []
        thoughts: list[str] = []
        for start, end in _messages(text):
            header, opened, body = text[start:end].partition(MESSAGE)
            recipient = _RECIPIENT.search(header)
            channel = _CHANNEL.search(header)
            if recipient:
                calls.append(_read_call(recipient[1].removeprefix(NAMESPACE), opened, body))
            elif channel and channel[1] == "analysis":
                thoughts.append(body)
            elif not calls and (opened or not channel):
                visible.append((start + len(header) + len(opened), end) if opened else (start, end))
        shown = any(text[start:end].strip() for start, end in visible)
        return Reading(tuple(calls), tuple(visible) if shown else (), "\n".join(thoughts).strip())

    def glue_text(self, calls: Sequence[Call | Parsed], results: Sequence[str]) -> str:
        told = "".join(
            f"{START}{NAMESPACE}{shown_name(call)} to=assistant{CHANNEL}commentary{MESSAGE}"
            f"{json.dumps(result, ensure_ascii=False)}{END}"
            for call, result in zip(calls, results, strict=True)
        )
        return f"{told}{START}assistant"

    def call_text(self, calls: Sequence[Call]) -> str:
        return f"{END}{START}assistant".join(
            f" to={NAMESPACE}{call.name}{CHANNEL}commentary json{MESSAGE}{json.dumps(call.arguments, ensure_ascii=False)}"
            for call in calls
        )

    def reply_turn(self, reply: str) -> list[int]:
        return self._turn(f"{CHANNEL}final{MESSAGE}{reply}", RETURN)

    def assistant_message(self, text: str) -> Message:
        reading = self.read(text)
        thinking = {"thinking": reading.reasoning} if reading.reasoning else {}
        if reading.calls:
            return {**self._calling_turn(reading.calls), **thinking}
        return {"role": "assistant", "content": self.visible_text(text, reading), **thinking}

    def _question_start(self, rendered: str, turn: int) -> int:
        """A reply that is no longer the last one ends with another token than it was sampled with: a broken prefix."""
        return rendered.index(END, turn) + len(END)


def _messages(text: str) -> list[Span]:
    """Header and body of each message of a turn, the token that ended it left out."""
    spans = []
    start = 0
    while start < len(text):
        stop = _STOPS.search(text, start)
        end = stop.start() if stop else len(text)
        if end > start:
            spans.append((start, end))
        start = stop.end() if stop else end
    return spans


def _read_call(name: str, opened: str, body: str) -> Parsed:
    if not opened:
        return Parsed(name or None, None, CallError.UNCLOSED, f"{MESSAGE} is missing")
    if not name:
        return Parsed(None, None, CallError.MALFORMED, "name is missing")
    start = len(body) - len(body.lstrip())
    end = json_end(body, start) if body[start : start + 1] in ("{", "[") else len(body)
    if end is None:
        return Parsed(name, None, CallError.UNCLOSED, "a closing bracket is missing")
    try:
        return Parsed(name, strict_json(body[start:end]))
    except ValueError:
        return Parsed(name, None, CallError.MALFORMED, "arguments are not JSON")
