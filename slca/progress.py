"""Progress of training, on ``slca.bars``, and quiet from the libraries beside it."""

import warnings
from typing import Any

import datasets
from transformers import PrinterCallback, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.utils import logging

from slca.bars import Bars


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
