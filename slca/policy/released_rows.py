"""Rows of the released SLCA data for supervised training: whole conversations with tool calls, in a Parquet file.

**Assumed** throughout, after verl's multi-turn layout and the Toucan data that the released rows derive from; the first place
that holds something counts:

* conversation: ``messages`` ({role, content}), ``conversations`` ({from, value}), each a structure or its JSON. Roles: system;
  user or human; assistant or gpt; tool, function, observation or tool_response for a result; tool_call or function_call for an
  assistant turn that is one call.
* calls of an assistant turn: ``tool_calls``, ``function_call``, or ``<tool_call>`` blocks in its text. A call is ``{name,
  arguments}`` or ``{function: {name, arguments}}``, arguments an object or its JSON. Assistant turns with calls that follow each
  other without a result are one turn. Text beside calls is left out, since the chat formats teach calls alone.
* results stand behind their turn, one for each call: in the calls' order, or by ``tool_call_id`` where all have one.
* tools and gold calls: as in the RL rows (``slca.sgls.importers.released``). A system message that lists tools in ``<tools>`` is
  left out: the policy's own template lists them.

A row is refused as a whole, with its number and reason, where it cannot be imitated: it has no tools, no assistant turn,
or calls what it does not list; or its gold calls contradict it (some, and nothing is called; none, and something is). Gold calls
may be missing, names only or an empty list.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from slca.chat.formats.hermes import read_blocks
from slca.files import canonical_json
from slca.records import Call, Json
from slca.sgls.importers.base import Refused
from slca.sgls.importers.released import (
    Unusable,
    gold_given,
    message_text,
    original_name,
    read_table,
    row_gold,
    row_tools,
    structure,
)
from slca.sgls.tool import Tool

_COLUMNS = ("messages", "conversations", "tools", "reward_model", "extra_info")
_ROLES = {
    "system": "system",
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "gpt", "tool_call", "function_call"), "assistant"),
    **dict.fromkeys(("tool", "function", "observation", "tool_response"), "tool"),
}
_IS_CALL = ("tool_call", "function_call")


@dataclass(frozen=True)
class Said:
    """What the policy is told: role is ``system`` or ``user``."""

    role: str
    text: str


@dataclass(frozen=True)
class Called:
    """An assistant turn with calls. results: one for each, or none where the conversation ends there."""

    calls: tuple[Call, ...]
    results: tuple[str, ...]


@dataclass(frozen=True)
class Replied:
    """An assistant turn without calls."""

    text: str


Turn = Said | Called | Replied


@dataclass(frozen=True)
class ReleasedConversation:
    """One row. row: its number, from 0. tools: under names unique in this row. notes: what of it was not imported."""

    row: int
    tools: tuple[Tool, ...]
    turns: tuple[Turn, ...]
    notes: tuple[Refused, ...] = ()


def read_conversations(path: Path) -> Iterator[ReleasedConversation | Refused]:
    """Every row in order. Raises DataError where ``path`` is no such table."""
    return read_table(path, _COLUMNS, ("messages", "conversations"), _conversation)


def _conversation(row: dict[str, Json], number: int, source: str) -> ReleasedConversation:
    messages = [_message(given) for given in _messages(row)]
    prompt = [{"role": message["role"], "content": message["text"]} for message in messages]
    tools, notes = row_tools({**row, "prompt": prompt}, f"row {number}", source)
    names = {original_name(tool): tool.name for tool in tools}
    turns = _turns(messages, names)
    called = any(isinstance(turn, Called) for turn in turns)
    if gold_given(row) is not None:
        needed = bool(row_gold(row, tools))
        if needed and not called:
            raise Unusable("it has gold calls, but its conversation makes none")
        if called and not needed:
            raise Unusable("its gold calls are an empty list, but its conversation makes calls")
    return ReleasedConversation(number, tools, turns, notes)


def _messages(row: Mapping[str, Json]) -> list[Json]:
    for column in ("messages", "conversations"):
        if isinstance(found := row.get(column), list) and found:
            return found
    raise Unusable("it has no conversation, in messages or conversations")


def _message(given: Json) -> dict[str, Json]:
    """role, text, calls (as given) and id of one message."""
    message = structure(given, "a message")
    if not isinstance(message, dict):
        raise Unusable("a message is no object")
    said = message.get("role", message.get("from"))
    if said not in _ROLES:
        raise Unusable(f"a message has the role {said!r}; known are {', '.join(_ROLES)}")
    content = message.get("content", message.get("value"))
    text = canonical_json(content) if isinstance(content, dict) else message_text(content)
    calls = structure(message.get("tool_calls"), "tool_calls") or []
    if message.get("function_call") not in (None, ""):
        calls = [message["function_call"]]
    if said in _IS_CALL:
        calls, text = structure(text, "a call"), ""
    return {
        "role": _ROLES[said],
        "text": text,
        "calls": calls if isinstance(calls, list) else [calls],
        "id": message.get("tool_call_id"),
    }


def _turns(messages: Sequence[Mapping[str, Json]], names: Mapping[str, str]) -> tuple[Turn, ...]:
    turns: list[Turn] = []
    ids: list[Json] = []  # of the calls of the last turn, and of their results
    answered: list[Json] = []
    for message in messages:
        role, text = message["role"], message["text"]
        last = turns[-1] if turns else None
        if role == "tool":
            if not isinstance(last, Called):
                raise Unusable("a result follows no call")
            answered.append(message["id"])
            turns[-1] = Called(last.calls, (*last.results, text))
        elif role == "assistant":
            calls, call_ids = _calls(message, names)
            if not calls and not text.strip():
                raise Unusable("an assistant turn says nothing and calls nothing")
            if isinstance(last, Called) and calls and not last.results:
                turns[-1] = Called((*last.calls, *calls), ())
                ids += call_ids
                continue
            _close(turns, ids, answered)
            ids, answered = call_ids, []
            if isinstance(last, Replied):
                text = f"{last.text}\n{text}"
                turns.pop()
            turns.append(Called(calls, ()) if calls else Replied(text))
        elif not (role == "system" and "<tools>" in text):
            _close(turns, ids, answered)
            ids, answered = [], []
            turns.append(Said(role, text))
    ends_calling = turns and isinstance(turns[-1], Called) and not answered  # calls are imitated without their results too
    if not ends_calling:
        _close(turns, ids, answered)
    first = next((number for number, turn in enumerate(turns) if not isinstance(turn, Said)), None)
    if first is None:
        raise Unusable("it has no assistant turn, so there is nothing to imitate")
    if not any(isinstance(turn, Said) and turn.role == "user" for turn in turns[:first]):
        raise Unusable("its first assistant turn follows no user message")
    return tuple(turns)


def _close(turns: list[Turn], ids: Sequence[Json], answered: Sequence[Json]) -> None:
    """Check that the last turn's calls have their results, and put these into the calls' order."""
    last = turns[-1] if turns else None
    if not isinstance(last, Called):
        return
    if len(last.results) != len(last.calls):
        raise Unusable(f"a turn has {len(last.calls)} calls but {len(last.results)} results", last.calls[0].name)
    if None not in ids and sorted(map(str, ids)) == sorted(map(str, answered)) and len(set(map(str, ids))) == len(ids):
        place = {str(own): number for number, own in enumerate(answered)}
        turns[-1] = Called(last.calls, tuple(last.results[place[str(own)]] for own in ids))


def _calls(message: Mapping[str, Json], names: Mapping[str, str]) -> tuple[tuple[Call, ...], list[Json]]:
    """The calls of an assistant message, and their ids (None where they have none)."""
    given = [structure(call, "a call") for call in message["calls"]]
    if not given:
        parsed = read_blocks(message["text"]).calls
        if any(call.error for call in parsed):
            raise Unusable("a <tool_call> block cannot be read")
        given = [{"name": call.name, "arguments": call.arguments} for call in parsed]
    calls = []
    for entry in given:
        inner = structure(entry["function"], "a call") if isinstance(entry, dict) and "function" in entry else entry
        if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
            raise Unusable("a call has no name")
        arguments = structure(inner.get("arguments"), "arguments")
        if arguments in (None, ""):
            arguments = {}
        if not isinstance(arguments, dict):
            raise Unusable("the arguments of a call are no object", inner["name"])
        if inner["name"] not in names:
            raise Unusable("it calls a tool that it does not list, or that cannot be imported", inner["name"])
        calls.append(Call(names[inner["name"]], arguments))
    return tuple(calls), [entry.get("id") if isinstance(entry, dict) else None for entry in given]
