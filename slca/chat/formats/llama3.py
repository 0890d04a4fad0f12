"""Llama 3.1, 3.2, 3.3: ``{"name": ..., "parameters": {...}}``, or ``<|python_tag|>`` and that or ``name.call(key="value")``.

A call has no marker of its own: a turn opens one where its first character is ``{``, or at ``<|python_tag|>``. JSON behind a
sentence is text. Several objects may follow each other, apart by white space, commas or semicolons; each is a call, and
what is none ends the row. A call ends with its last bracket; where the turn ends before that, it is unclosed.

The template writes one call per turn and refuses more. Demonstrations write several apart by ``; ``, as served models do; the
conversation then holds the turn as text, which the template trims. Results go back under the role ``ipython``.
A turn ends with ``<|eot_id|>``, or with ``<|eom_id|>`` where the model waits for a tool; the template always writes the former,
so that the latter is a broken prefix.

The response schema that TRL ships for this family takes one call, and reads no ``<|python_tag|>``.
"""

import json
import re
from collections.abc import Sequence

from slca.chat.base import ChatFormat
from slca.chat.reading import Parsed, Reading, json_end, malformed, read_json, split_reasoning, unclosed
from slca.records import Call, CallError

TAG = "<|python_tag|>"

_NEXT = re.compile(r"[\s;,]*")
_PYTHON = re.compile(r"\s*(\w+)\.call\((.*)\)\s*", re.DOTALL)
_KEYWORD = re.compile(r'(\w+)="(.*?)"(?:, (?=\w+=")|$)', re.DOTALL)


class Llama3(ChatFormat):
    name = "llama3"
    needs = ("<|start_header_id|>", "<|eot_id|>", TAG)
    ends = ("<|eot_id|>", "<|eom_id|>")

    def read(self, text: str) -> Reading:
        head, *tagged = text.split(TAG)
        calls = _read_row(head) if head.lstrip().startswith("{") else []
        visible, reasoning = split_reasoning(text, 0 if calls else len(head))
        for body in tagged:
            calls += _read_row(body) if body.lstrip().startswith("{") else [_read_python(body)]
        return Reading(tuple(calls), visible, reasoning)

    def call_text(self, calls: Sequence[Call]) -> str:
        return "; ".join(
            f'{{"name": {json.dumps(call.name, ensure_ascii=False)}, '
            f'"parameters": {json.dumps(call.arguments, ensure_ascii=False)}}}'
            for call in calls
        )


def _read_row(text: str) -> list[Parsed]:
    """The calls of a row of JSON objects."""
    calls = []
    start = _NEXT.match(text).end()  # type: ignore[union-attr]
    while text.startswith("{", start):
        end = json_end(text, start)
        if end is None:
            calls.append(unclosed("a closing bracket"))
            break
        calls.append(read_json(text[start:end], "parameters"))
        start = _NEXT.match(text, end).end()  # type: ignore[union-attr]
    return calls


def _read_python(text: str) -> Parsed:
    """A call of a built-in tool, ``name.call(key="value", ...)``, as the template writes it: nothing in a value is escaped."""
    call = _PYTHON.fullmatch(text)
    if not call:
        return malformed('neither a JSON object nor name.call(key="value")')
    arguments, place = {}, 0
    while place < len(call[2]):
        keyword = _KEYWORD.match(call[2], place)
        if not keyword:
            return Parsed(call[1], None, CallError.MALFORMED, 'arguments are not key="value"')
        arguments[keyword[1]] = keyword[2]
        place = keyword.end()
    return Parsed(call[1], arguments)
