"""What the text of one assistant turn says: its calls, and what of it the user reads.

Each format writes one function from text to ``Reading``. Labels, parsing, replies and the messages that a full render is made
from all come from it, so that they cannot disagree.
"""

import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slca.files import canonical_json
from slca.records import CallError, Json

THINK, THOUGHT = "<think>", "</think>"
"""The tags that most models put around reasoning."""

Span = tuple[int, int]
"""Characters [start, end) of a turn's text."""


@dataclass(frozen=True)
class Parsed:
    """One call that was opened. ``error`` is set, with a short ``message``, where no call could be read.

    id: what the policy called the call, in formats whose calls carry ids.
    """

    name: str | None
    arguments: Json
    error: CallError | None = None
    message: str = ""
    id: str = ""


@dataclass(frozen=True)
class Reading:
    """calls: every call that the turn opens, in order. visible: what the user reads, up to the first call (in order, apart).

    What is neither visible nor a call is reasoning or markup; ``reasoning`` is the reasoning alone, as text.
    """

    calls: tuple[Parsed, ...]
    visible: tuple[Span, ...]
    reasoning: str = ""


@dataclass(frozen=True)
class ReadTurn:
    """What the n sampled tokens of one turn say. text: theirs, without the token that ended the turn; calls: those it opens.

    labels: (n,) ``Segment`` values. call_of: (n,) the number of the call that a token belongs to, -1 before the first and without
    any; a call begins with the token that opens it and reaches to the next one, or to the end of the turn.
    """

    text: str
    calls: tuple[Parsed, ...]
    labels: NDArray[np.int8]
    call_of: NDArray[np.int64]


def read_json(body: str, arguments_key: str = "arguments") -> Parsed:
    """A call written as {"name": ..., "arguments": ...}. Arguments are passed on as they are, whatever their type."""
    try:
        value = strict_json(body)
    except ValueError:
        return malformed("not a JSON object")
    return read_object(value, arguments_key)


def read_object(value: Json, arguments_key: str = "arguments") -> Parsed:
    if not isinstance(value, dict):
        return malformed("not a JSON object")
    name, arguments = value.get("name"), value.get(arguments_key)
    if not isinstance(name, str) or not name:
        return malformed("name is missing", arguments)
    return Parsed(name, arguments)


def malformed(message: str, arguments: Json = None) -> Parsed:
    return Parsed(None, arguments, CallError.MALFORMED, message)


def unclosed(closing: str) -> Parsed:
    return Parsed(None, None, CallError.UNCLOSED, f"{closing} is missing")


def strict_json(text: str) -> Json:
    """The value that ``text`` writes. ValueError for anything else, and for values that cannot be stored with the rollout:
    NaN, Infinity, 1e999, lone surrogates, nesting without end."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
        canonical_json(value).encode()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def json_end(text: str, start: int) -> int | None:
    """The character behind the object or list that opens at ``start``; None where the text ends before it does.

    Brackets are counted outside strings, whatever stands between them: a call that is closed but wrong (malformed) is told
    from one that was cut off (unclosed).
    """
    depth, quoted, escaped = 0, False, False
    for place in range(start, len(text)):
        character = text[place]
        if quoted:
            quoted = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            quoted = True
        elif character in "{[":
            depth += 1
        elif character in "}]":
            depth -= 1
            if depth == 0:
                return place + 1
    return None


def split_reasoning(text: str, end: int, think: str = THINK, thought: str = THOUGHT) -> tuple[tuple[Span, ...], str]:
    """The visible spans of ``text[:end]``, and its reasoning, which stands between the tags ``think`` and ``thought``.

    Reasoning may lack its opening tag, where the template puts that into the prompt, or its closing tag, where the turn was cut.
    Spans of white space alone show the user nothing and are left out, unless others show something: then all of them count.
    """
    spans: list[Span] = []
    thoughts: list[str] = []
    place = 0
    first_close = text.find(thought, 0, end)
    if first_close >= 0 and think not in text[:first_close]:
        thoughts.append(text[:first_close])
        place = first_close + len(thought)
    while place < end:
        opened = text.find(think, place, end)
        if opened < 0:
            spans.append((place, end))
            break
        if opened > place:
            spans.append((place, opened))
        closed = text.find(thought, opened, end)
        thoughts.append(text[opened + len(think) : closed if closed >= 0 else end])
        place = closed + len(thought) if closed >= 0 else end
    shown = any(text[start:stop].strip() for start, stop in spans)
    return (tuple(spans) if shown else ()), "\n".join(part.strip() for part in thoughts).strip()
