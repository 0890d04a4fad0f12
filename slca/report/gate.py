"""The regression gate: has success fallen below that of the last accepted run by more than its interval?

``accept`` keeps the present run in reports/accepted.json, a small file to commit. ``check`` compares the present run with it.

Rule. For each method and split, with the scores of both runs on the same tasks and seeds: d = present - accepted success, mean
over seeds of the mean over tasks, with its 95 % interval by the paired bootstrap (``intervals.difference_interval``). Success
has fallen where the whole interval lies below zero: where it is lower by more than the interval reaches upward of d. The pairing
is what makes this sharper than comparing the two means' own intervals, most of whose width is the difficulty of the tasks, the
same in both runs. A run that repeats the accepted one to the last byte has d = 0 with an interval of no width, and passes.

One comparison raises a false alarm in at most 2.5 % of retrainings that change nothing, six of them in up to 15 %: a gate that
closed says where to look. One seed: the interval says nothing about retraining (``intervals``).

Never passed in silence: runs of other settings, seeds or tasks, a method that is gone, success without a number, and scores
missing for more than a twentieth of the pairs are errors, each a sentence that says what differs. Without an accepted run there
is nothing to compare; that is said, and passes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from slca.errors import DataError, RunStopped
from slca.files import derive_seed, digest, file_digest, read_json, write_json
from slca.params import sentence
from slca.records import Reward
from slca.report.inputs import SPLITS, WARMSTART, in_split
from slca.report.intervals import Floats, Interval, difference_interval
from slca.tables import read_rewards, read_tasks

RESULTS = Path("reports/results.json")
ACCEPTED = Path("reports/accepted.json")

LEAST_PAIRED = 0.95
"""Of the scores, one for each task and seed, the share that must exist in both runs: fewer are no fair sample."""

NOTHING_ACCEPTED = f"There is no {ACCEPTED}, so there is nothing to compare with; `slca accept` accepts the present results."

_NOT_COMPARED = ("bootstrap", "bootstrap_seed", "seed_coverage")
_VALUES = {"1": 1.0, "0": 0.0, ".": float("nan")}


class Bootstrap(NamedTuple):
    resamples: int
    seed: int


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Success(_Stored):
    """Success of one method on one split.

    mean, low, high: with its 95 % interval, as results.json has them. by_run: name of each run (such as slca-0) -> a character
    for each task in the order of task ids: 1 success, 0 failure, "." not scored.
    """

    mean: float
    low: float
    high: float
    by_run: dict[str, Annotated[str, Field(pattern=r"^[01.]+$")]] = Field(min_length=1)

    def values(self, runs: Iterable[str]) -> Floats:
        """(S runs, T tasks), NaN where not scored."""
        return np.array([[_VALUES[score] for score in self.by_run[run]] for run in runs], dtype=np.float64)


class Run(_Stored):
    """What is compared of a run, and what has to be equal for that.

    settings: profile, seeds, steps and whatever else the report states of the run, but for its bootstrap. tasks: split -> digest
    of the tasks that were scored. success: method -> split.
    """

    version: Literal[1] = 1
    settings: dict[str, Any]
    tasks: dict[str, str]
    success: dict[str, dict[str, Success]] = Field(min_length=1)


@dataclass(frozen=True)
class Comparison:
    """One method on one split. difference: present - accepted, paired."""

    method: str
    split: str
    present: Success
    accepted: Success
    difference: Interval

    @property
    def fell(self) -> bool:
        return self.difference.high < 0

    def __str__(self) -> str:
        d = self.difference
        seeds = "1 seed" if d.seeds == 1 else f"{d.seeds} seeds"
        return (
            f"{self.method} on {self.split} has {figures(self.present)} where {figures(self.accepted)} was accepted, "
            f"a difference of {d.mean:+.3f} [{d.low:+.3f}, {d.high:+.3f}] over {d.n} tasks and {seeds}"
        )

    def to_json(self) -> dict[str, Any]:
        """Flat, for tables."""
        intervals = {"present": self.present, "accepted": self.accepted, "difference": self.difference}
        figures = {f"{name}_{key}": getattr(one, key) for name, one in intervals.items() for key in ("mean", "low", "high")}
        return {"method": self.method, "split": self.split, **figures, "fell": self.fell}


def accept(root: Path = Path(".")) -> Run:
    """Make the present results those that later runs are compared with. Raises DataError where they are not whole."""
    run, _ = present(root)
    write_json(root / ACCEPTED, run.model_dump())
    return run


def check(root: Path = Path(".")) -> list[Comparison] | None:
    """The present results beside the accepted ones; None if there are none. Raises DataError where they cannot be compared."""
    if not (root / ACCEPTED).exists():
        return None
    run, bootstrap = present(root)
    return compare(run, accepted(root), bootstrap)


def verdict(comparisons: Sequence[Comparison] | None) -> str:
    """One sentence for a run that passes. Raises RunStopped, with the numbers, for one that has fallen."""
    if comparisons is None:
        return NOTHING_ACCEPTED
    fallen = [str(comparison) for comparison in comparisons if comparison.fell]
    if fallen:
        raise RunStopped(
            f"Success fell below the accepted run by more than its interval: {'; '.join(fallen)}. "
            "If that is intended, `slca accept` accepts the present results."
        )
    nearest = min(comparisons, key=lambda comparison: comparison.difference.high)
    return f"No success fell below the accepted run by more than its interval; nearest to it, {nearest}."


def compare(present: Run, accepted: Run, bootstrap: Bootstrap) -> list[Comparison]:
    """Every method and split of the accepted run; a new method has nothing to fall from. Raises DataError."""
    for name in sorted(present.settings.keys() | accepted.settings.keys()):
        now, then = present.settings.get(name), accepted.settings.get(name)
        if now != then:
            raise _not_comparable(f"{name} was {then!r} and now is {now!r}")
    for split in SPLITS:
        if present.tasks[split] != accepted.tasks.get(split):
            raise _not_comparable(f"the split {split} was scored on other tasks")
    return [
        _comparison(method, split, present.success.get(method, {}).get(split), then, bootstrap)
        for method, splits in accepted.success.items()
        for split, then in splits.items()
    ]


def _comparison(method: str, split: str, now: Success | None, then: Success, bootstrap: Bootstrap) -> Comparison:
    where = f"{method} on {split}"
    if now is None:
        raise _not_comparable(f"{where} was measured and now is not")
    sizes = [{run: len(scores) for run, scores in success.by_run.items()} for success in (then, now)]
    if sizes[0] != sizes[1]:
        raise _not_comparable(f"{where} had tasks {sizes[0]} and now has {sizes[1]}")
    ours, theirs = now.values(now.by_run), then.values(now.by_run)
    paired = float((~np.isnan(ours - theirs)).mean())
    if paired < LEAST_PAIRED:
        raise _not_comparable(f"of the scores of {where} only {paired:.1%} exist in both runs")
    difference = difference_interval(ours, theirs, bootstrap.resamples, derive_seed("gate", bootstrap.seed, method, split))
    assert difference is not None  # there are pairs
    return Comparison(method, split, now, then, difference)


def present(root: Path) -> tuple[Run, Bootstrap]:
    """The run that results.json reports, with its bootstrap.

    Raises DataError for results that are missing or not whole, or not made from the tasks and score tables that are there.
    """
    results = read_json(root / RESULTS)
    try:
        settings = {"profile": results["profile"], **results["run"]}
        bootstrap = Bootstrap(int(settings["bootstrap"]), int(settings["bootstrap_seed"]))
        methods, sources, seeds = results["methods"], results["sources"], settings["seeds"]
        runs = {method: [WARMSTART] if method == WARMSTART else [f"{method}-{seed}" for seed in seeds] for method in methods}
        stated = {
            (method, split): {key: methods[method][split]["success"][key] for key in ("mean", "low", "high")}
            for method in methods
            for split in SPLITS
        }
        scores = {run: _scores(root, run, sources[f"data/evaluation/{run}.parquet"]) for run in chain(*runs.values())}
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{RESULTS} lacks something that is compared ({error}); run the stage 'report' again.") from None
    success = {
        method: {
            split: {**stated[method, split], "by_run": {name: _text(scores[name], split) for name in names}} for split in SPLITS
        }
        for method, names in runs.items()
    }
    values = {
        "settings": {name: value for name, value in settings.items() if name not in _NOT_COMPARED},
        "tasks": {split: _tasks(root, split, next(iter(scores.values()))) for split in SPLITS if scores},
        "success": success,
    }
    return _validated(values, RESULTS, "run the stage 'report' again"), bootstrap


def accepted(root: Path) -> Run:
    """The accepted run. Raises DataError for a file that ``accept`` did not write."""
    return _validated(read_json(root / ACCEPTED), ACCEPTED, "restore it, or write it anew with `slca accept`")


def _validated(values: Any, path: Path, mend: str) -> Run:
    try:
        return Run.model_validate(values)
    except ValidationError as error:
        raise DataError(f"{path}: {sentence(error).removesuffix('.')}; {mend}.") from None


def _scores(root: Path, run: str, expected: str) -> dict[str, Reward]:
    """Task id -> reward, sorted, of a table that is the one the report was made from."""
    path = Path(f"data/evaluation/{run}.parquet")
    if not (root / path).is_file():
        raise DataError(f"{path} does not exist; run the stage 'evaluate', which writes it.")
    if file_digest(root / path) != expected:
        raise DataError(f"{RESULTS} was not made from {path} as it is now; run the stage 'report'.")
    rewards = {reward.task_id: reward for reward in read_rewards(root / path)}
    return dict(sorted(rewards.items()))


def _text(scores: dict[str, Reward], split: str) -> str:
    here = [reward for task, reward in scores.items() if in_split(task, split)]
    return "".join("." if reward.masked else str(int(reward.success)) for reward in here)


def _tasks(root: Path, split: str, scores: dict[str, Reward]) -> str:
    """Digest of what the scored tasks of a split are, not of their file, whose bytes depend on its writer's version."""
    path = Path(f"data/tasks/{split}.parquet")
    tasks = {task.task_id: task for task in read_tasks(root / path)}
    scored = [task for task in scores if in_split(task, split)]
    if missing := [task for task in scored if task not in tasks]:
        raise DataError(f"{path} has no task {missing[0]!r}, which was scored; run the stage 'evaluate' again.")
    return digest(*[asdict(tasks[task]) for task in scored])


def figures(success: Success) -> str:
    """Mean and interval, as messages give them."""
    return f"{success.mean:.3f} [{success.low:.3f}, {success.high:.3f}]"


def _not_comparable(what: str) -> DataError:
    return DataError(
        f"The results cannot be compared with {ACCEPTED}: {what}; "
        "run with what was accepted, or accept the present results with `slca accept`."
    )
