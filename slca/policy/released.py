"""Released conversations as examples for the warm start, in the policy's own tokens, and the report of what was refused.

Each user message begins an example of its own: its prompt is the render of everything up to it, as a policy meets it when it is
served, and the assistant's turns up to the next user message carry the loss.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import TemplateError

from slca import params as p
from slca.chat import ChatFormat
from slca.chat.base import Message
from slca.errors import DataError
from slca.policy.demonstrations import IGNORED, Demonstration
from slca.policy.pretrained import check_pinned
from slca.policy.released_rows import Called, ReleasedConversation, Said, read_conversations
from slca.sgls.importers.base import Refused

_SHOWN = 5


@dataclass(frozen=True)
class Report:
    """What came of a file. rows: that were read; refused: those that were not used; notes: tools left out of used rows."""

    path: str
    rows: int
    examples: int
    refused: tuple[Refused, ...]
    notes: tuple[Refused, ...]

    def __str__(self) -> str:
        used = f"{self.path}: {self.rows - len(self.refused)} of {self.rows} rows give {self.examples} conversations"
        shown = "; ".join(map(str, self.refused[:_SHOWN]))
        more = f"; and {len(self.refused) - _SHOWN} more" if len(self.refused) > _SHOWN else ""
        return f"{used}; refused: {shown}{more}" if self.refused else used

    def to_json(self) -> dict[str, Any]:
        def listed(entries: tuple[Refused, ...]) -> list[dict[str, str]]:
            return [{"place": entry.place, "name": entry.name, "reason": entry.reason} for entry in entries]

        counts = {"path": self.path, "rows": self.rows, "examples": self.examples}
        return {**counts, "refused": listed(self.refused), "notes": listed(self.notes)}


def released(path: Path, settings: p.Warmstart, chat: ChatFormat) -> tuple[list[Demonstration], Report]:
    """Rows are read until ``settings.demonstrations`` examples are made. Raises DataError if every row is refused."""
    if not path.exists():
        raise DataError(f"warmstart.released_path: there is no file {path}.")
    check_pinned(path, settings.released_sha256, "warmstart.released_sha256")
    examples: list[Demonstration] = []
    refused: list[Refused] = []
    notes: list[Refused] = []
    rows = 0
    for row in read_conversations(path):
        rows += 1
        made = row if isinstance(row, Refused) else _encoded_or_refused(row, chat)
        if isinstance(made, Refused):
            refused.append(made)
            continue
        examples += made
        notes += row.notes if isinstance(row, ReleasedConversation) else ()
        if len(examples) >= settings.demonstrations:
            break
    if not examples:
        reason = f"none of its {rows} rows can be used; {refused[0]}" if refused else "it has no rows"
        raise DataError(f"{path}: {reason}.")
    del examples[settings.demonstrations :]
    return examples, Report(path.name, rows, len(examples), tuple(refused), tuple(notes))


def _encoded_or_refused(row: ReleasedConversation, chat: ChatFormat) -> list[Demonstration] | Refused:
    try:
        return list(encoded(row, chat))
    except (TemplateError, DataError) as error:
        return Refused(f"row {row.row}", "", f"the chat template cannot render it ({str(error).rstrip('.')})")


def encoded(row: ReleasedConversation, chat: ChatFormat) -> Iterator[Demonstration]:
    """The examples of one conversation, one for each user message that is answered."""
    tools = [tool.to_json() for tool in row.tools]
    messages: list[Message] = []
    ids: list[int] = []
    labels: list[int] = []
    glue: list[int] = []
    for turn in row.turns:
        if isinstance(turn, Said):
            if ids:
                yield Demonstration(tuple(ids), tuple(labels))
            ids, labels, glue = [], [], []
            messages.append({"role": turn.role, "content": turn.text})
            continue
        if not ids:
            ids = chat.prompt_ids(messages, tools)
            labels = [IGNORED] * len(ids)
        ids += glue
        labels += [IGNORED] * len(glue)
        if isinstance(turn, Called):
            own = chat.call_turn(turn.calls)
            glue = chat.glue_ids(turn.calls, turn.results) if turn.results else []
            messages.append(chat.assistant_message(chat.call_text(turn.calls)))
            messages += chat.tool_messages(turn.calls, turn.results) if turn.results else []
        else:
            own, glue = chat.reply_turn(turn.text), []
            messages.append({"role": "assistant", "content": turn.text})
        ids += own
        labels += own
    if ids:
        yield Demonstration(tuple(ids), tuple(labels))
