"""Gemma's function calls: ``call:name{key:value, ...}`` between markers, with a delimiter of its own around strings.

One grammar, two sets of tokens:

* ``functiongemma`` (FunctionGemma; Google's "FunctionGemma formatting and best practices"):
  ``<start_function_call>call:f{city:<escape>Oslo<escape>}<end_function_call>``;
* ``gemma4`` (the template shipped in TRL): ``<|tool_call>call:f{city:<|"|>Oslo<|"|>}<tool_call|>``, reasoning in
  ``<|channel>thought ... <channel|>``.

Values are strings between delimiters, numbers, true, false, null, objects with bare keys, and lists. A string holds no
delimiter, so nothing is escaped. A model asks for results by sampling the token that opens a result, which ends its turn;
glue then starts inside the result. Where it ended its turn otherwise, glue opens the result first.
"""

import json
import re
from collections.abc import Sequence
from typing import ClassVar

from slca.chat.base import ChatFormat
from slca.chat.reading import THINK, THOUGHT, Parsed, Reading, malformed, split_reasoning, strict_json, unclosed
from slca.records import Call, CallError, Json

_MAX_DEPTH = 64
_HEAD = re.compile(r"\s*call:\s*([^\s{}]*)\s*")
_BARE = re.compile(r"[^,\]}\s]+")
_KEY = re.compile(r"[^:,{}\[\]]+")


class _Gemma(ChatFormat):
    opening: ClassVar[str]
    closing: ClassVar[str]
    quote: ClassVar[str]
    response: ClassVar[str]
    thinking: ClassVar[tuple[str, str]]

    def read(self, text: str) -> Reading:
        head, *bodies = text.split(self.opening)
        calls = tuple(self._read_call(body) for body in bodies)
        visible, reasoning = split_reasoning(text, len(head), *self.thinking)
        return Reading(calls, visible, reasoning)

    def glue_ids(self, calls: Sequence[Call | Parsed], results: Sequence[str], turn_ids: Sequence[int] = ()) -> list[int]:
        glue = super().glue_ids(calls, results, turn_ids)
        opens = self.encode(self.response)
        return glue if not turn_ids or turn_ids[-1:] == opens else opens + glue

    def _read_call(self, body: str) -> Parsed:
        inside, closed, _ = body.partition(self.closing)
        if not closed:
            return unclosed(self.closing)
        head = _HEAD.match(inside)
        if not head or not head[1]:
            return malformed("not call:name{...}")
        try:
            arguments, end = _value(inside, head.end(), self.quote, 0)
        except ValueError as error:
            return Parsed(head[1], None, CallError.MALFORMED, str(error))
        if not isinstance(arguments, dict) or inside[end:].strip():
            return Parsed(head[1], None, CallError.MALFORMED, "not call:name{...}")
        return Parsed(head[1], arguments)


class FunctionGemma(_Gemma):
    name = "functiongemma"
    opening, closing, quote = "<start_function_call>", "<end_function_call>", "<escape>"
    response = "<start_function_response>"
    thinking = (THINK, THOUGHT)
    needs = ("<start_of_turn>", opening, closing, response, quote)
    ends = (response, "<end_of_turn>")
    reply_end = "<end_of_turn>"


class Gemma4(_Gemma):
    name = "gemma4"
    opening, closing, quote = "<|tool_call>", "<tool_call|>", '<|"|>'
    response = "<|tool_response>"
    thinking = ("<|channel>", "<channel|>")
    needs = ("<|turn>", opening, closing, response, quote)
    ends = (response, "<turn|>")
    reply_end = "<turn|>"


def _value(text: str, place: int, quote: str, depth: int) -> tuple[Json, int]:
    """The value at ``place`` and the character behind it. ValueError, in words for the policy, where there is none."""
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    place = _skip(text, place)
    if text.startswith(quote, place):
        end = text.find(quote, place + len(quote))
        if end < 0:
            raise ValueError(f"a string without closing {quote}")
        string = text[place + len(quote) : end]
        strict_json(json.dumps(string))
        return string, end + len(quote)
    if text.startswith("{", place):
        return _object(text, place + 1, quote, depth)
    if text.startswith("[", place):
        return _list(text, place + 1, quote, depth)
    bare = _BARE.match(text, place)
    if not bare:
        raise ValueError("a value is missing")
    word = bare[0]
    literals: dict[str, Json] = {"None": None, "True": True, "False": False}
    return (literals[word] if word in literals else _number(word)), bare.end()


def _number(word: str) -> Json:
    try:
        return strict_json(word)
    except ValueError:
        raise ValueError(f"{word[:40]!r} is neither a number nor a string between delimiters") from None


def _object(text: str, place: int, quote: str, depth: int) -> tuple[Json, int]:
    value: dict[str, Json] = {}
    place = _skip(text, place)
    while not text.startswith("}", place):
        if text.startswith(quote, place):
            key, place = _value(text, place, quote, depth)
        else:
            bare = _KEY.match(text, place)
            if not bare:
                raise ValueError("a key is missing")
            key, place = bare[0].strip(), bare.end()
        place = _skip(text, place)
        if not text.startswith(":", place):
            raise ValueError("a key without a value")
        value[key], place = _value(text, place + 1, quote, depth + 1)
        place = _separator(text, place, "}")
    return value, place + 1


def _list(text: str, place: int, quote: str, depth: int) -> tuple[Json, int]:
    values = []
    place = _skip(text, place)
    while not text.startswith("]", place):
        value, place = _value(text, place, quote, depth + 1)
        values.append(value)
        place = _separator(text, place, "]")
    return values, place + 1


def _separator(text: str, place: int, closing: str) -> int:
    """Behind a comma, or at ``closing``."""
    place = _skip(text, place)
    if text.startswith(",", place):
        return _skip(text, place + 1)
    if not text.startswith(closing, place):
        raise ValueError(f"{closing} is missing")
    return place


def _skip(text: str, place: int) -> int:
    while place < len(text) and text[place].isspace():
        place += 1
    return place
