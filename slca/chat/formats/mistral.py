"""Mistral: ``[TOOL_CALLS]`` in front of a list of objects with ids, or of ``name[ARGS]{...}`` (tokenizer version 11 and later).

Up to version 7 one marker opens a list, ``[{"name": ..., "arguments": {...}, "id": ...}, ...]``; each object is a call. From
version 11 on each marker opens one call, ``name[CALL_ID]id[ARGS]{...}`` (11) or ``name[ARGS]{...}`` (13). Both are read,
whichever the tokenizer writes. An object that the text ends in is unclosed, as is the last one of a list that is not closed.

Ids are nine letters or digits; a call without such an id is known by its place in the turn. Reasoning stands between ``[THINK]``
and ``[/THINK]`` (Magistral). Templates up to version 3 refuse text beside calls; such a turn stays text in the conversation.
"""

import re

from slca.chat.base import ChatFormat
from slca.chat.reading import Parsed, Reading, json_end, malformed, read_object, split_reasoning, strict_json, unclosed
from slca.records import Call, CallError

MARKER, ARGUMENTS, CALL_ID = "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"

_BETWEEN = re.compile(r"[\s,]*")
_ID = re.compile(r"[a-zA-Z0-9]{9}")


class Mistral(ChatFormat):
    name = "mistral"
    needs = (MARKER, "[INST]")
    ends = ("</s>",)

    def read(self, text: str) -> Reading:
        head, *bodies = text.split(MARKER)
        calls = [call for body in bodies for call in _read_body(body)]
        visible, reasoning = split_reasoning(text, len(head), "[THINK]", "[/THINK]")
        return Reading(tuple(calls), visible, reasoning)

    def _call_id(self, index: int, call: Call | Parsed) -> str:
        own = super()._call_id(index, call)
        return own if _ID.fullmatch(own) else super()._call_id(index, Call("", {}))


def _read_body(body: str) -> list[Parsed]:
    """The calls behind one marker: one at least."""
    start = len(body) - len(body.lstrip())
    if body.startswith("[", start) and not body.startswith(ARGUMENTS, start):
        return _read_list(body, start)
    if ARGUMENTS in body:
        return [_read_named(body)]
    if body.startswith("{", start):
        return [_read_object(body, start)[0]]
    return [malformed("neither a list of calls nor name[ARGS]{...}") if body.strip() else unclosed("the call")]


def _read_list(body: str, start: int) -> list[Parsed]:
    calls: list[Parsed] = []
    place = _skip(body, start + 1)
    while place < len(body) and body[place] != "]":
        if body[place] in "{[":
            call, place = _read_object(body, place)
        else:  # no call: read over it, up to the next value
            call, place = malformed("not a JSON object"), _end_of_scalar(body, place)
        calls.append(call)
        place = _skip(body, place)
    if place >= len(body):  # the list is not closed, so its last call is not either
        return [*calls[:-1], unclosed("]")]
    return calls or [malformed("an empty list of calls")]


def _read_object(body: str, start: int) -> tuple[Parsed, int]:
    """A call written as an object, and the character behind it."""
    end = json_end(body, start)
    if end is None:
        return unclosed("a closing bracket"), len(body)
    try:
        value = strict_json(body[start:end])
    except ValueError:
        return malformed("not a JSON object"), end
    call = read_object(value)
    given = value.get("id") if isinstance(value, dict) else None
    return Parsed(call.name, call.arguments, call.error, call.message, given if isinstance(given, str) else ""), end


def _read_named(body: str) -> Parsed:
    head, _, arguments = body.partition(ARGUMENTS)
    name, _, given = (part.strip() for part in head.partition(CALL_ID))
    if not name:
        return malformed("name is missing")
    start = len(arguments) - len(arguments.lstrip())
    end = json_end(arguments, start) if arguments[start : start + 1] in ("{", "[") else len(arguments)
    if end is None or not arguments.strip():
        return Parsed(name, None, CallError.UNCLOSED, "a closing bracket is missing", given)
    try:
        return Parsed(name, strict_json(arguments[start:end]), id=given)
    except ValueError:
        return Parsed(name, None, CallError.MALFORMED, "arguments are not JSON", given)


def _skip(body: str, place: int) -> int:
    return _BETWEEN.match(body, place).end()  # type: ignore[union-attr]


def _end_of_scalar(body: str, place: int) -> int:
    found = re.compile(r'"(?:[^"\\]|\\.)*"?|[^\s,\]"]+', re.DOTALL).match(body, place)
    return found.end() if found else place + 1
