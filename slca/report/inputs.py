"""Reads what the other stages left, and refuses what does not belong together.

Files (relative to the root), and the stage that writes each:

* ``data/training/<method>-<seed>/curve.csv``, ``train``: one row per optimizer step.
* ``reports/evaluation/<method>-<seed>.json`` and ``warmstart.json``, ``evaluate``: the figures of one run, BFCL with its
  references among them.
* ``data/evaluation/<method>-<seed>.parquet`` and ``warmstart.parquet``, ``evaluate``: the score of each task, for intervals.
* ``reports/rewards.json``, ``rewards``: calibration.
* ``reports/experiment/results.json``, the command ``slca experiment``: ablations and other rewards, where it has been run.

Checked: every file is there; a run's JSON agrees with its table (a mixture of an old and a new run does not); all runs were
scored on the same tasks, each once; all curves have the same steps. Raises DataError that names the file and the stage to run.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from slca.errors import DataError
from slca.files import file_digest, read_json
from slca.params import Params
from slca.records import Reward, TaskKind
from slca.report.intervals import Floats
from slca.tables import read_rewards

WARMSTART = "warmstart"
SPLITS = ("test", "unseen_tools")
METRICS = (
    "success",
    "outcome_success",
    "process",
    "name_f1",
    "argument_match",
    "summary",
    "redundancy",
    "tool_turns",
    "sampled_tokens",
    "simulated_cost",
)
CURVES = ("step", "tasks", "rollouts", "sampled_tokens", "success", "process", "summary")

EXPERIMENT = Path("reports/experiment/results.json")

_AGREE = 1e-3  # evaluation figures may be rounded


@dataclass(frozen=True)
class Scores:
    """One method on one split: ``values[metric]`` is (S, T), NaN where the rollout is masked; columns follow ``tasks``."""

    tasks: tuple[str, ...]
    kinds: tuple[TaskKind, ...]
    values: dict[str, Floats]

    def of_kind(self, kind: TaskKind) -> Floats:
        """Success on the tasks of one kind, (S, number of those tasks)."""
        return self.values["success"][:, [one is kind for one in self.kinds]]


@dataclass(frozen=True)
class Inputs:
    """Everything that the report says, before any statistics.

    methods: the warm start first. seeds: of the trained methods. curves[method][column] is (S, steps). scores[method][split].
    figures[method] is a list with one evaluation JSON per seed. curve_files: run -> its CSV. sources: file -> SHA-256. Paths are
    relative to the root. experiment: what ``slca experiment`` last reported; {} where it has not been run.
    """

    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    curves: dict[str, dict[str, Floats]]
    scores: dict[str, dict[str, Scores]]
    figures: dict[str, list[dict[str, Any]]]
    curve_files: dict[str, Path]
    rewards: dict[str, Any]
    experiment: dict[str, Any]
    sources: dict[str, str]


def in_split(task_id: str, split: str) -> bool:
    """Whether the task is one of the split: ids begin with its name."""
    return task_id.startswith(f"{split}-")


def load(params: Params, root: Path) -> Inputs:
    """Reads and checks all inputs of the methods and seeds in ``params.train``. Raises DataError."""
    trained: tuple[str, ...] = params.train.methods
    seeds = params.train.seeds
    names = {WARMSTART: [WARMSTART]} | {method: [f"{method}-{seed}" for seed in seeds] for method in trained}
    curve_files = {method: [Path(f"data/training/{name}/curve.csv") for name in names[method]] for method in trained}
    json_files = {method: [Path(f"reports/evaluation/{name}.json") for name in runs] for method, runs in names.items()}
    table_files = {method: [Path(f"data/evaluation/{name}.parquet") for name in runs] for method, runs in names.items()}
    rewards = Path("reports/rewards.json")

    needed = [(path, "train") for paths in curve_files.values() for path in paths]
    needed += [(path, "evaluate") for files in (json_files, table_files) for paths in files.values() for path in paths]
    needed.append((rewards, "rewards"))
    for path, stage in needed:
        if not (root / path).is_file():
            raise DataError(f"{path} does not exist; run the stage {stage!r}, which writes it.")

    figures = {method: [_figures(root, path) for path in paths] for method, paths in json_files.items()}
    scores = _all_scores(root, table_files)
    for method, paths in json_files.items():
        for row, path in enumerate(paths):
            _check_items(figures[method][row], figures[WARMSTART][0], path)
            _check_agreement(figures[method][row], scores[method], row, path, table_files[method][row])
    there = [EXPERIMENT] if (root / EXPERIMENT).is_file() else []
    return Inputs(
        methods=tuple(names),
        seeds=seeds,
        curves=_all_curves(root, curve_files, params.train.steps),
        scores=scores,
        figures=figures,
        curve_files={name: path for method in trained for name, path in zip(names[method], curve_files[method], strict=True)},
        rewards=_object(root, rewards, "rewards"),
        experiment=_object(root, EXPERIMENT, "experiment") if there else {},
        sources={path.as_posix(): file_digest(root / path) for path in (*(path for path, _ in needed), *there)},
    )


def _object(root: Path, path: Path, stage: str) -> dict[str, Any]:
    value = read_json(root / path)
    if not isinstance(value, dict):
        raise DataError(f"{path} must hold a JSON object, not {json.dumps(value)[:40]}; run the stage {stage!r} again.")
    return value


def _figures(root: Path, path: Path) -> dict[str, Any]:
    value = _object(root, path, "evaluate")
    splits = value.get("splits")
    for section in ("bfcl", "tau2", "references"):
        if not isinstance(value.setdefault(section, {}), dict):
            raise DataError(f"{path}: {section} must be an object; run the stage 'evaluate' again.")
    for split in SPLITS:
        if not isinstance(splits, dict) or not isinstance(splits.get(split), dict):
            raise DataError(f"{path} has no object splits.{split}; run the stage 'evaluate' again.")
    return value


def _all_curves(root: Path, files: dict[str, list[Path]], steps: int) -> dict[str, dict[str, Floats]]:
    curves = {}
    for method, paths in files.items():
        runs = [_curve(root, path, steps) for path in paths]
        for run, path in zip(runs, paths, strict=True):
            if not np.array_equal(run["step"], runs[0]["step"]):
                raise DataError(f"{path} numbers its steps otherwise than {paths[0]}; run the stage 'train' again.")
        curves[method] = {column: np.stack([run[column] for run in runs]) for column in CURVES}
    return curves


def _curve(root: Path, path: Path, steps: int) -> dict[str, Floats]:
    try:
        frame = pd.read_csv(root / path, float_precision="round_trip")
    except (pd.errors.EmptyDataError, pd.errors.ParserError, UnicodeDecodeError) as error:
        raise DataError(
            f"{path} is not a readable CSV file ({' '.join(str(error).split())}); run the stage 'train' again."
        ) from None
    missing = [column for column in CURVES if column not in frame.columns]
    if missing:
        raise DataError(f"{path} has no column {', '.join(missing)}; run the stage 'train' again.")
    if len(frame) != steps:
        raise DataError(f"{path} has {len(frame)} rows where train.steps = {steps} were asked for; run the stage 'train' again.")
    try:
        curve = {column: frame[column].to_numpy(dtype=np.float64) for column in CURVES}
    except ValueError as error:
        raise DataError(f"{path} holds something that is no number ({error}); run the stage 'train' again.") from None
    for column in ("step", "rollouts", "sampled_tokens"):
        if not np.isfinite(curve[column]).all():
            raise DataError(f"{path}: column {column} has a row without a number; run the stage 'train' again.")
    return curve


def _all_scores(root: Path, files: dict[str, list[Path]]) -> dict[str, dict[str, Scores]]:
    first = files[WARMSTART][0]
    expected: dict[str, TaskKind] = {}
    tables: dict[str, list[dict[str, Reward]]] = {}
    for method, paths in files.items():
        tables[method] = []
        for path in paths:
            table = _by_task(root, path)
            kinds = {task: reward.kind for task, reward in table.items()}
            if path == first:
                expected = kinds
            elif kinds != expected:
                differing = min(task for task in kinds.keys() | expected.keys() if kinds.get(task) != expected.get(task))
                raise DataError(
                    f"{path} and {first} were not scored on the same tasks (first difference: {differing!r}); "
                    "run the stage 'evaluate' again."
                )
            tables[method].append(table)
    splits = {split: tuple(sorted(task for task in expected if in_split(task, split))) for split in SPLITS}
    for split, tasks in splits.items():
        if not tasks:
            raise DataError(f"{first} has no task of the split {split!r}; run the stage 'evaluate' again.")
    return {method: {split: _scores(runs, tasks) for split, tasks in splits.items()} for method, runs in tables.items()}


def _by_task(root: Path, path: Path) -> dict[str, Reward]:
    by_task: dict[str, Reward] = {}
    for reward in read_rewards(root / path):
        if not reward.task_id.startswith(tuple(f"{split}-" for split in SPLITS)):
            raise DataError(
                f"{path}: task_id {reward.task_id!r} does not start with the name of a split; run the stage 'evaluate' again."
            )
        if reward.task_id in by_task:
            raise DataError(f"{path}: task_id {reward.task_id!r} occurs twice; an evaluation scores each task once.")
        by_task[reward.task_id] = reward
    return by_task


def _scores(runs: list[dict[str, Reward]], tasks: tuple[str, ...]) -> Scores:
    rows = [[_metrics(run[task]) for task in tasks] for run in runs]
    values = {metric: np.array([[cell[metric] for cell in row] for row in rows], dtype=np.float64) for metric in METRICS}
    return Scores(tasks, tuple(runs[0][task].kind for task in tasks), values)


def _metrics(reward: Reward) -> dict[str, float]:
    if reward.masked:
        return dict.fromkeys(METRICS, float("nan"))
    return {
        "success": float(reward.success),
        "outcome_success": reward.outcome,
        "process": reward.process,
        "name_f1": reward.name,
        "argument_match": reward.value,
        "summary": float("nan") if reward.summary_score is None else reward.summary_score,
        "redundancy": reward.redundancy,
        "tool_turns": float(reward.tool_turns),
        "sampled_tokens": float(reward.sampled_tokens),
        "simulated_cost": float(reward.calls),
    }


def _check_items(figures: dict[str, Any], first: dict[str, Any], path: Path) -> None:
    """Every run must have met the same benchmark items: as many of each category or domain, by the same package and harness."""
    for section in ("bfcl", "tau2"):
        for key in sorted(figures[section].keys() | first[section].keys()):
            ours, theirs = figures[section].get(key), first[section].get(key)
            must_agree = key in ("package", "handler", "user") or key.endswith(("_n", "_of", "_trials"))
            if must_agree and ours != theirs:
                raise DataError(
                    f"{path} says {section} {key} = {ours!r}, but reports/evaluation/{WARMSTART}.json says {theirs!r}; "
                    "run the stage 'evaluate' again for both."
                )


def _check_agreement(figures: dict[str, Any], scores: dict[str, Scores], row: int, path: Path, table: Path) -> None:
    for split in SPLITS:
        for metric in METRICS:
            stated = figures["splits"][split].get(metric)
            values = scores[split].values[metric][row]
            if not isinstance(stated, int | float) or np.isnan(values).all():
                continue
            found = float(np.nanmean(values))
            if abs(stated - found) > _AGREE * max(1.0, abs(found)):
                raise DataError(
                    f"{path} says {split} {metric} = {stated:g}, but {table} gives {found:g}; "
                    "they come from different runs: run the stage 'evaluate' again."
                )
