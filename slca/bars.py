"""Bars for long work, on stderr: bars on a terminal, now and then a line where output is a log.

Apart from ``slca.progress``, whose trainers' bars import what takes ten seconds to import.
"""

import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

_SECONDS_BETWEEN_LINES = 15.0


class Bars:
    """A context in which named pieces of work advance."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._log = not console.is_terminal
        self._said = time.monotonic()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            disable=self._log,
        )

    def __enter__(self) -> "Bars":
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()

    def add(self, title: str, total: int, done: int = 0) -> "Bar":
        return Bar(self, self._progress.add_task(title, total=total, completed=done, note=""))

    def update(self, task: TaskID, **changes: Any) -> None:
        self._progress.update(task, **changes)
        if self._log and time.monotonic() - self._said > _SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            state = self._progress.tasks[task]
            self._progress.console.print(
                f"{state.description}: {state.completed:.0f} of {state.total:.0f} {state.fields['note']}"
            )


class Bar:
    """One piece of work; call it with how much more is done."""

    def __init__(self, bars: Bars, task: TaskID) -> None:
        self._bars = bars
        self._task = task

    def __call__(self, more: int = 1, note: str | None = None) -> None:
        self._bars.update(self._task, advance=more, **({} if note is None else {"note": note}))
