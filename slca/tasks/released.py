"""Tasks from the released SLCA splits (``slca.sgls.importers.released``), in place of generated ones.

A row becomes a task with its own tools, no state (the published simulator has none: what tools answer is made up, and kept by the
cache), no required facts and no reference reply. Its kind is told from its gold plan: none, several calls in a step, several
steps, or one call. Rows are left out, with the reason, where their gold calls lack arguments or break their tool's own schema:
no policy could score on them.

Splits: training rows; evaluation rows; and those evaluation rows none of whose tools occurs in a training row.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from slca.errors import DataError
from slca.files import digest
from slca.records import Call, Plan, Task, TaskKind
from slca.sgls import validation
from slca.sgls.importers.base import Refused
from slca.sgls.importers.released import ReleasedRow, read_rows


@dataclass(frozen=True)
class Released:
    """tasks: of the rows that can be used, in order. refused: how many of the others for each reason."""

    tasks: tuple[Task, ...]
    refused: Counter[str]


def released_tasks(path: Path, name: str, most: int) -> Released:
    """The first ``most`` usable rows of ``path``. name: begins the tasks' ids. Raises DataError where no row can be used."""
    tasks: list[Task] = []
    refused: Counter[str] = Counter()
    for row in read_rows(path):
        if len(tasks) == most:
            break
        reason = row.reason if isinstance(row, Refused) else _unscorable(row)
        if reason or isinstance(row, Refused):
            refused[reason] += 1
        else:
            tasks.append(_task(row, name))
    if not tasks:
        reasons = "; ".join(f"{count} rows: {reason}" for reason, count in refused.most_common(3)) or "it has no rows"
        raise DataError(f"{path} gives no task ({reasons}).")
    return Released(tuple(tasks), refused)


def on_unseen_tools(tasks: tuple[Task, ...], training: tuple[Task, ...]) -> list[Task]:
    """The tasks none of whose tools, by name, a training task has."""
    seen = {tool["name"] for task in training for tool in task.tools}
    return [task for task in tasks if not seen & {tool["name"] for tool in task.tools}]


def _unscorable(row: ReleasedRow) -> str:
    if row.names_only:
        return "its gold calls name tools only, without arguments to score"
    tools = {tool.name: tool for tool in row.tools}
    for step in row.gold:
        for call in step:
            fault = validation.fault(validation.validator(tools[call.name].parameters), call.arguments, "arguments")
            if fault is not None:
                return "its gold calls break the schema of their tool"
    return ""


def _task(row: ReleasedRow, name: str) -> Task:
    gold: Plan = tuple(tuple(Call(call.name, call.arguments or {}) for call in step) for step in row.gold)
    kind = TaskKind.SINGLE if gold else TaskKind.ABSTAIN
    if any(len(step) > 1 for step in gold):
        kind = TaskKind.PARALLEL
    elif len(gold) > 1:
        kind = TaskKind.CHAIN
    tools = tuple(tool.to_json() for tool in row.tools)
    return Task(f"{name}-{row.row}", kind, row.question, tools, gold, (), "", {}, digest({}))
