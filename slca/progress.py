"""Progress of long work, on stderr."""

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from transformers import PrinterCallback, TrainerCallback, TrainerControl, TrainerState, TrainingArguments


def progress_bar() -> Progress:
    """A bar with counts and remaining time; plain when stderr is no terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
    )


class ProgressBar(TrainerCallback):  # type: ignore[misc]
    """Shows a trainer's steps, and the latest of the named metrics."""

    def __init__(self, title: str, metrics: tuple[str, ...] = ("loss",)) -> None:
        self.title = title
        self.metrics = metrics
        self.bar: Progress | None = None

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if state.is_world_process_zero:
            self.bar = progress_bar()
            self.bar.start()
            self.bar.add_task(self.title, total=state.max_steps, completed=state.global_step, note="")

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if self.bar:
            self.bar.update(self.bar.task_ids[0], completed=state.global_step)

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: dict[str, float] | None = None, **_: Any
    ) -> None:
        if self.bar and logs:
            shown = [f"{name} {float(logs[name]):.3f}" for name in self.metrics if name in logs]
            if shown:
                self.bar.update(self.bar.task_ids[0], note=", ".join(shown))

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if self.bar:
            self.bar.stop()


def quiet(trainer: Any) -> None:
    """Remove the printer that a trainer adds when its own bar is off: the bar above shows the same."""
    trainer.remove_callback(PrinterCallback)
