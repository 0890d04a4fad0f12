"""Progress of long work, on stderr: bars on a terminal, now and then a line where output is a log."""

import time
import warnings
from types import TracebackType
from typing import Any

import datasets
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from transformers import PrinterCallback, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.utils import logging

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


class ProgressBar(TrainerCallback):  # type: ignore[misc]
    """Shows a trainer's steps, and the latest of the named metrics."""

    def __init__(self, title: str, metrics: tuple[str, ...] = ("loss",)) -> None:
        self.title = title
        self.metrics = metrics
        self.bars = Bars()

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self.bars.__enter__()
        self.bar = self.bars.add(self.title, state.max_steps, state.global_step)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self.bar(1)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **_: Any,
    ) -> None:
        shown = [f"{name} {float((logs or {})[name]):.3f}" for name in self.metrics if name in (logs or {})]
        if shown:
            self.bar(0, ", ".join(shown))

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self.bars.__exit__(None, None, None)


def quiet(trainer: Any) -> None:
    """Remove the printer that a trainer adds when its own bar is off: the bar above shows the same."""
    trainer.remove_callback(PrinterCallback)


def quiet_libraries() -> None:
    """No bars for things that take a moment, and no advice from one library to another: the user can do nothing about it."""
    logging.disable_progress_bar()
    datasets.disable_progress_bars()
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
