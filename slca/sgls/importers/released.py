"""Rows of the released SLCA data: Parquet in the verl layout (method section 6), for RL and evaluation.

Of the layout, verl's conventions are known: columns ``data_source``, ``prompt`` (a list of ``{role, content}``), ``ability``,
``reward_model`` (``{style, ground_truth}``) and ``extra_info`` (``{index, split, ...}``). Where the data puts the rest is
**assumed**; the first place that holds something counts:

* question: ``extra_info.question``, ``question``, the last user message of ``prompt``.
* tools: ``extra_info.tools``, ``tools``, ``extra_info.tools_kwargs`` (by name, each a definition, alone or under
  ``create_kwargs``), ``<tools>...</tools>`` in the system message. A tool is an entry of a function list or of an MCP list.
* gold calls: ``reward_model.ground_truth``, then ``ground_truth``, ``gold``, ``target_tools`` of ``extra_info``.
* Each of them is a structure or its JSON; in a structure that Parquet holds as such a null is an absent key, since Parquet
  gives every row the keys of all.
* Gold calls come nested (a list of steps, each a list of calls made in parallel), flat (a list of calls: one to a step, since a
  flat list does not say what was parallel) or as names only (a list, or text with commas), which have no arguments to score.
* A call is ``{name, arguments}`` or ``{function: {name, arguments}}``, arguments an object or its JSON.

A row is refused as a whole, with its number (from 0) and the reason, where it lacks one of the three or its gold calls name a
tool that it does not list: what cannot be scored must not teach. An empty list of gold calls is right: nothing is to be
called. A tool that cannot be imported and that the gold calls do not need is left out of its row, with a note.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from slca.errors import DataError
from slca.files import canonical_json
from slca.records import Json
from slca.sgls.importers.base import Imported, Refused
from slca.sgls.importers.checked import Found, checked_tools
from slca.sgls.importers.document import plain_json
from slca.sgls.importers.functions import function_tool
from slca.sgls.importers.mcp import mcp_tool
from slca.sgls.importers.names import tool_names
from slca.sgls.importers.reading import parse_json
from slca.sgls.tool import Tool

COLUMNS = ("prompt", "question", "tools", "reward_model", "extra_info")
"""What is read of a row."""

_BATCH = 64


@dataclass(frozen=True)
class GoldCall:
    """A call of the gold plan. arguments: None where the data names the tool only."""

    name: str
    arguments: dict[str, Json] | None


@dataclass(frozen=True)
class ReleasedRow:
    """One row of the data.

    row: its number, from 0. tools: under names that are unique in this row, whatever other rows call them. gold: steps of
    parallel calls, by these names. notes: what of it was not imported.
    """

    row: int
    question: str
    tools: tuple[Tool, ...]
    gold: tuple[tuple[GoldCall, ...], ...]
    notes: tuple[Refused, ...] = ()

    @property
    def names_only(self) -> bool:
        return any(call.arguments is None for step in self.gold for call in step)


def read_rows(path: Path) -> Iterator[ReleasedRow | Refused]:
    """Every row in order, one batch in memory at a time. Raises DataError where ``path`` is no such table."""
    return read_table(path, COLUMNS, ("prompt", "question", "extra_info"), _row)


Parsed = TypeVar("Parsed")


def read_table(
    path: Path, wanted: Sequence[str], needed: Sequence[str], parse: Callable[[dict[str, Json], int, str], Parsed]
) -> Iterator[Parsed | Refused]:
    """``parse(row, number, source)`` of every row of a table that has one of the columns ``needed``, or why it is refused.

    A row has its ``wanted`` columns, and no nulls; what is the JSON of a structure is one. ``parse`` raises Unusable.
    """
    source = path.stem
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            columns = [name for name in file.schema_arrow.names if name in wanted]
            if not set(needed) & set(columns):
                held = ", ".join(file.schema_arrow.names)
                names = " or ".join(name for name in needed if name != "question")
                raise DataError(f"{path} has no column {names}, so it is no released SLCA data; it holds: {held}.")
            number = 0
            for batch in file.iter_batches(batch_size=_BATCH, columns=columns):
                for offset in range(batch.num_rows):
                    yield _parsed(batch.slice(offset, 1), number, source, parse)
                    number += 1
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet: {' '.join(str(error).split()).rstrip('.')}.") from None


def load_released(path: Path) -> Imported:
    """The tools of all rows. The same definition counts once; another one by the same name gets a name of its own, with a note.

    refused: the rows that cannot be used; a tool that cannot be imported, where it first occurs.
    """
    tools: dict[str, Tool] = {}
    rows: list[str] = []
    refused: dict[tuple[str, str, str], Refused] = {}
    for row in read_rows(path):
        if isinstance(row, Refused):
            refused[row.place, "", ""] = row
            continue
        for note in row.notes:
            refused.setdefault(("", note.name, note.reason), note)
        for tool in row.tools:
            key = canonical_json([original_name(tool), tool.description, tool.parameters, tool.output])
            if key not in tools:
                tools[key] = tool
                rows.append(f"row {row.row}")
    if not tools:
        reason = f"none of its rows can be used; {next(iter(refused.values()))}" if refused else "it has no rows"
        raise DataError(f"{path}: {reason}.")
    names = tool_names([original_name(tool) for tool in tools.values()])
    first: dict[str, str] = {}
    named, notes = [], []
    for tool, name, place in zip(tools.values(), names, rows, strict=True):
        original = original_name(tool)
        named.append(tool.model_copy(update={"name": name, "original": original if name != original else ""}))
        if first.setdefault(original, place) != place:
            notes.append(Refused(place, original, f"another definition than in {first[original]}; named {name}"))
    return Imported(tuple(named), tuple(refused.values()), tuple(notes))


class Unusable(Exception):
    """Why a row is refused. name: the tool that it is about, or empty."""

    def __init__(self, reason: str, name: str = "") -> None:
        super().__init__(reason)
        self.name = name


def _parsed(
    batch: pa.RecordBatch, number: int, source: str, parse: Callable[[dict[str, Json], int, str], Parsed]
) -> Parsed | Refused:
    place = f"row {number}"
    try:
        row = plain_json(_present(batch.to_pylist()[0]), "the row")
        return parse({key: value if key == "question" else structure(value, key) for key, value in row.items()}, number, source)
    except Unusable as fault:
        return Refused(place, fault.name, str(fault))
    except DataError as error:
        return Refused(place, "", str(error).rstrip("."))
    except UnicodeDecodeError:
        return Refused(place, "", "its text is no UTF-8")
    except RecursionError:
        return Refused(place, "", "its tools or gold calls are nested too deeply")


def _row(row: dict[str, Json], number: int, source: str) -> ReleasedRow:
    tools, notes = row_tools(row, f"row {number}", source)
    return ReleasedRow(number, _question(row), tools, row_gold(row, tools), notes)


def _question(row: dict[str, Json]) -> str:
    said = [message_text(message.get("content")) for message in _messages(row, "user")]
    question = next((text for text in (_at(row, "extra_info", "question"), row.get("question"), *said[-1:]) if text), None)
    if not isinstance(question, str):
        raise Unusable("it has no question: neither extra_info.question nor a user message in prompt")
    return question


def _messages(row: dict[str, Json], role: str) -> list[dict[str, Json]]:
    prompt = row.get("prompt")
    messages = prompt if isinstance(prompt, list) else []
    return [message for message in messages if isinstance(message, dict) and message.get("role") == role]


def message_text(content: Json) -> str:
    """The text of a message, which is text or a list of parts."""
    parts = content if isinstance(content, list) else [content]
    return "".join(str(part.get("text", "")) if isinstance(part, dict) else str(part or "") for part in parts)


def row_tools(row: dict[str, Json], place: str, source: str) -> tuple[tuple[Tool, ...], tuple[Refused, ...]]:
    """The tools of a row, and what of them was not imported. Raises Unusable where it lists none."""
    places = (_at(row, "extra_info", "tools"), row.get("tools"), _by_name(row), _block(row))
    listed = next((tools for tools in (structure(value, "tools") for value in places) if tools), None)
    if not isinstance(listed, list):
        raise Unusable("it has no list of tools, in extra_info.tools, tools, extra_info.tools_kwargs or the system message")
    entries = {canonical_json(entry): entry for entry in (_opened(structure(entry, "a tool")) for entry in listed)}
    found = [_found(entry, f"{place}, tool {index}", f"released:{source}") for index, entry in enumerate(entries.values())]
    imported = checked_tools(found, source)
    return imported.tools, (*imported.refused, *imported.notes)


def _found(entry: Json, place: str, origin: str) -> Found | Refused:
    read = mcp_tool if isinstance(entry, dict) and "inputSchema" in entry else function_tool
    return read(entry, place, origin)


def _opened(entry: Json) -> Json:
    """A tool whose schema may be JSON text."""
    if not isinstance(entry, dict):
        return entry
    schemas = ("parameters", "inputSchema", "input_schema")
    opened = {key: structure(value, key) if key in schemas or key == "function" else value for key, value in entry.items()}
    return {key: _opened(value) if key == "function" else value for key, value in opened.items()}


def _by_name(row: dict[str, Json]) -> list[Json]:
    """Tools of ``{name: definition}`` or ``{name: {create_kwargs: definition}}``. verl keeps other things there too."""
    named = structure(_at(row, "extra_info", "tools_kwargs"), "tools_kwargs")
    if not isinstance(named, dict):
        return []
    definitions = {name: value.get("create_kwargs", value) for name, value in named.items() if isinstance(value, dict)}
    return [
        {"name": name} | definition
        for name, definition in definitions.items()
        if isinstance(definition, dict) and definition.keys() & {"function", "parameters", "inputSchema", "input_schema"}
    ]


def _block(row: dict[str, Json]) -> list[Json]:
    """The tools of the system message: a JSON list, or a JSON object on each line."""
    text = "\n".join(message_text(message.get("content")) for message in _messages(row, "system"))
    block = text.rpartition("</tools>")[0].rpartition("<tools>")[2].strip()  # the last: chat templates name the tags before
    if block.startswith("["):
        return [*structure(block, "<tools>")]
    return [structure(line, "<tools>") for line in block.splitlines() if line.strip()]


def row_gold(row: dict[str, Json], tools: tuple[Tool, ...]) -> tuple[tuple[GoldCall, ...], ...]:
    """The gold plan of a row. Raises Unusable where there is none."""
    given = gold_given(row)
    if given is None:
        raise Unusable("it has no gold calls; where nothing is to be called, reward_model.ground_truth is an empty list")
    names = {original_name(tool): tool.name for tool in tools}
    return tuple(tuple(_gold_call(call, names) for call in step) for step in _steps(given) if step)


def gold_given(row: dict[str, Json]) -> Json:
    """What a row says of its gold calls; None where it says nothing."""
    others = (_at(row, "extra_info", key) for key in ("ground_truth", "gold", "target_tools"))
    return next((value for value in (_at(row, "reward_model", "ground_truth"), *others) if value not in (None, "")), None)


def _steps(given: Json) -> list[list[Json]]:
    value = structure(given, "the gold calls")
    if isinstance(value, str):
        return [[name.strip()] for name in value.split(",")]
    calls = [structure(call, "the gold calls") for call in (value if isinstance(value, list) else [value])]
    if all(isinstance(call, list) for call in calls):
        return calls
    if any(isinstance(call, list) for call in calls):
        raise Unusable("its gold calls mix steps and calls in one list")
    return [[call] for call in calls]


def _gold_call(given: Json, names: dict[str, str]) -> GoldCall:
    call = structure(given, "a gold call")
    if isinstance(call, str):
        call = {"name": call}
    if isinstance(call, dict) and "function" in call:
        call = structure(call["function"], "a gold call")
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        raise Unusable("a gold call has no name")
    arguments = structure(call.get("arguments"), "arguments")
    if arguments is not None and not isinstance(arguments, dict):
        raise Unusable("the arguments of a gold call are no object", call["name"])
    if call["name"] not in names:
        raise Unusable("its gold calls name a tool that it does not list, or that cannot be imported", call["name"])
    return GoldCall(names[call["name"]], arguments)


def original_name(tool: Tool) -> str:
    """What the data calls a tool."""
    return tool.original or tool.name


def _at(row: dict[str, Json], column: str, key: str) -> Json:
    value = row.get(column)
    return value.get(key) if isinstance(value, dict) else None


def structure(value: Json, what: str) -> Json:
    """``value``, or what it is the JSON of, if it is text that begins like a list or an object. Raises Unusable."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    try:
        parsed = parse_json(value)
        return plain_json(parsed, what) if "\\ud" in value.lower() else parsed  # only an escape can spell half of a pair
    except RecursionError:
        raise Unusable(f"{what} cannot be read as JSON (nested too deeply)") from None
    except (ValueError, DataError) as error:
        raise Unusable(f"{what} cannot be read as JSON ({str(error).rstrip('.')})") from None


def _present(value: Json) -> Json:
    """``value`` without the keys that hold null."""
    if isinstance(value, dict):
        return {key: _present(member) for key, member in value.items() if member is not None}
    return [_present(member) for member in value] if isinstance(value, list) else value
