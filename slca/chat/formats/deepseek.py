# ruff: noqa: RUF001, RUF002 (the family's markers hold full-width bars)
"""DeepSeek V3 and R1: ``<｜tool▁call▁begin｜>function<｜tool▁sep｜>name``, then the arguments in a ``json`` fence.

The calls of a turn stand between ``<｜tool▁calls▁begin｜>`` and ``<｜tool▁calls▁end｜>``. Each ``<｜tool▁call▁begin｜>`` is a
call; so is a ``<｜tool▁calls▁begin｜>`` that no call follows.

The templates of this family are not to be trusted with calls, so call text is written here, in their own words. They want the
arguments as a string; they list no tools (the system prompt does, as in ``slca.chat.base``); V3's first template and R1's leave a
turn with a single call without its end, drop calls beside text, and put no ``<｜Assistant｜>`` in front of a second turn with
calls. Such renders differ from what was sampled, and ``slca.chat.conversation`` counts them as broken prefixes. Glue is
the template's, from ``<｜tool▁outputs▁begin｜>`` on.
"""

import json
from collections.abc import Sequence
from typing import Any

from slca.chat.base import ChatFormat
from slca.chat.reading import Parsed, Reading, json_end, malformed, split_reasoning, strict_json, unclosed
from slca.records import Call, CallError

CALLS, CALLS_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
CALL, CALL_END, SEPARATOR = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"
OUTPUTS = "<｜tool▁outputs▁begin｜>"


class DeepSeek(ChatFormat):
    name = "deepseek"
    needs = (CALLS, CALL, CALL_END, SEPARATOR, OUTPUTS)
    ends = ("<｜end▁of▁sentence｜>",)

    def read(self, text: str) -> Reading:
        head, *groups = text.split(CALLS)
        calls: list[Parsed] = []
        first = len(head)
        if CALL in head:  # calls without the marker that should open the group
            first = head.index(CALL)
            calls += [_read_call(body) for body in head.split(CALL)[1:]]
        for group in groups:
            bodies = group.split(CALL)[1:]
            calls += [_read_call(body) for body in bodies] or [unclosed(CALL)]
        visible, reasoning = split_reasoning(text, first)
        return Reading(tuple(calls), visible, reasoning)

    def call_text(self, calls: Sequence[Call]) -> str:
        written = (
            f"{CALL}function{SEPARATOR}{call.name}\n```json\n{json.dumps(call.arguments, ensure_ascii=False)}\n```{CALL_END}"
            for call in calls
        )
        return CALLS + "\n".join(written) + CALLS_END

    def _tool_call(self, index: int, call: Call | Parsed) -> dict[str, Any]:
        made = super()._tool_call(index, call)
        arguments = json.dumps(call.arguments, ensure_ascii=False)
        return {**made, "function": {**made["function"], "arguments": arguments}}

    def _glue_start(self, rendered: str, turn: int) -> int:
        """Some of the templates forget the end of the turn, so glue starts at what always follows it."""
        return rendered.find(OUTPUTS, turn)


def _read_call(body: str) -> Parsed:
    inside, closed, _ = body.partition(CALL_END)
    if not closed:
        return unclosed(CALL_END)
    _kind, separator, rest = inside.partition(SEPARATOR)
    name, _, fenced = rest.partition("\n")
    name = name.strip()
    if not separator or not name:
        return malformed("name is missing")
    start = fenced.find("{")
    end = json_end(fenced, start) if start >= 0 else None
    if end is None or fenced[:start].strip() not in ("```json", "```", ""):
        return Parsed(name, None, CallError.MALFORMED, "no JSON object between ```json and ```")
    try:
        return Parsed(name, strict_json(fenced[start:end]))
    except ValueError:
        return Parsed(name, None, CallError.MALFORMED, "arguments are not JSON")
