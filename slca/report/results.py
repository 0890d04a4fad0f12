"""From the checked inputs to the one nested object that results.json stores and that results.md and the figures are drawn from.

Every number is rounded to six decimals here, once: results.md prints these numbers and computes none. Where a number comes
from:

* ``methods``: metrics of single tasks (``inputs.METRICS``, ``success_<kind>``) are estimated from the score tables with
  intervals; masked rollouts are counted there; what exists only once per run (cost) is averaged over seeds from the evaluation
  JSON. The latter two have no interval.
* ``comparisons``: every other method against ``grpo``, and every method against the warm start, paired.
* ``budgets``: last rows of the training CSVs. ``steps_to_final``: training CSVs (see learning.py).
* ``bfcl``: accuracies and references from the evaluation JSON. ``contamination``, ``calibration``: reports/rewards.json.
"""

import math
import platform
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from statistics import fmean, stdev
from typing import Any

import numpy as np

from slca.files import derive_seed
from slca.params import Params
from slca.records import TaskKind
from slca.report import learning
from slca.report.inputs import METRICS, SPLITS, WARMSTART, Inputs
from slca.report.intervals import Floats, Interval, difference_interval, mean_interval, seed_coverage, wilson
from slca.report.published import PUBLISHED

REFERENCE = "grpo"
PACKAGES = ("torch", "transformers", "trl", "numpy", "pyarrow")
SEGMENTS = ("tool", "summary")

Results = dict[str, Any]


def build(params: Params, inputs: Inputs) -> Results:
    """The whole report as plain JSON values, in a fixed order; equal inputs give equal values."""
    return {
        "profile": params.profile,
        "run": {
            "seeds": list(inputs.seeds),
            "steps": params.train.steps,
            "tasks_per_step": params.train.tasks_per_step,
            "group_size": params.rollouts.group_size,
            "tasks": {split: len(inputs.scores[WARMSTART][split].tasks) for split in SPLITS},
            "hierr": params.rewards.hierr,
            "tool_reward": params.rewards.tool_reward,
            "judge": params.rewards.judge,
            "judge_noise": params.rewards.judge_noise,
            "success_threshold": params.rewards.success_threshold,
            "fault_rate": params.simulator.fault_rate,
            "evaluation_temperature": params.evaluate.temperature,
            "bootstrap": params.report.bootstrap,
            "bootstrap_seed": params.report.seed,
            "seed_coverage": seed_coverage(len(inputs.seeds)),
        },
        "budgets": _budgets(inputs),
        "budget_spread": _spread(inputs),
        "methods": {method: {split: _split(params, inputs, method, split) for split in SPLITS} for method in inputs.methods},
        "success_by_seed": _success_by_seed(inputs),
        "comparisons": _comparisons(params, inputs),
        "steps_to_final": _steps_to_final(inputs),
        "bfcl": _bfcl(params, inputs),
        "contamination": _contamination(inputs.rewards),
        "calibration": _scalars(inputs.rewards, leave_out="contamination_"),
        "published": PUBLISHED,
        "sources": inputs.sources,
        "versions": _versions(),
    }


def rounded(value: float) -> float:
    """Six decimals; no negative zero."""
    return round(float(value), 6) + 0.0


def _optional(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else rounded(value)


def _budgets(inputs: Inputs) -> Results:
    """Per method: what one run drew, mean over seeds, with the smallest and largest run where runs differ."""
    budgets = {}
    for method, columns in inputs.curves.items():
        tokens = _tokens(columns)
        budgets[method] = {
            "rollouts": rounded(_rollouts(columns).mean()),
            "sampled_tokens": rounded(tokens.mean()),
            "sampled_tokens_low": rounded(tokens.min()),
            "sampled_tokens_high": rounded(tokens.max()),
            "seeds": len(tokens),
        }
    return budgets


def _spread(inputs: Inputs) -> Results:
    """(largest - smallest) / largest of the methods' mean rollouts and mean sampled tokens: 0 for equal budgets."""
    spread = {}
    for name, drawn in (("rollouts", _rollouts), ("sampled_tokens", _tokens)):
        means = [float(drawn(columns).mean()) for columns in inputs.curves.values()]
        spread[name] = rounded((max(means) - min(means)) / max(means))
    return spread


def _rollouts(columns: dict[str, Floats]) -> Floats:
    """(S,): all rollouts of each run."""
    total: Floats = columns["rollouts"].sum(axis=1)
    return total


def _tokens(columns: dict[str, Floats]) -> Floats:
    """(S,): all sampled tokens of each run; the column is cumulative."""
    return columns["sampled_tokens"][:, -1]


def _split(params: Params, inputs: Inputs, method: str, split: str) -> Results:
    scores = inputs.scores[method][split]
    entries = {metric: _interval(params, scores.values[metric], method, split, metric) for metric in METRICS}
    for kind in TaskKind:
        if kind in scores.kinds:
            entries[f"success_{kind}"] = _interval(params, scores.of_kind(kind), method, split, f"success_{kind}")
    entries["masked"] = _per_run([int(np.isnan(row).sum()) for row in scores.values["success"]])
    for metric in inputs.figures[method][0]["splits"][split]:
        if metric not in entries:
            entries[metric] = _per_run([run["splits"][split].get(metric) for run in inputs.figures[method]])
    return {metric: entry for metric, entry in entries.items() if entry is not None}


def _interval(params: Params, values: Floats, method: str, split: str, metric: str) -> Results | None:
    seed = derive_seed("report", params.report.seed, "mean", method, split, metric)
    return _entry(mean_interval(values, params.report.bootstrap, seed))


def _entry(interval: Interval | None) -> Results | None:
    if interval is None:
        return None
    return {key: value if isinstance(value, int) else _optional(value) for key, value in asdict(interval).items()}


def _per_run(values: list[Any]) -> Results | None:
    numbers = [number for number in map(_number, values) if number is not None]
    if not numbers:
        return None
    return {
        "mean": rounded(fmean(numbers)),
        "sd": _deviation(numbers),
        "low": None,
        "high": None,
        "seeds": len(numbers),
        "n": None,
    }


def _success_by_seed(inputs: Inputs) -> Results:
    """Success of each single run; the warm start has one, whatever its seed."""
    by_seed: Results = {}
    for method in inputs.methods:
        names = _names(inputs, method)
        by_seed[method] = {}
        for split in SPLITS:
            rows = inputs.scores[method][split].values["success"]
            means = [float("nan") if np.isnan(row).all() else float(np.nanmean(row)) for row in rows]
            by_seed[method][split] = {name: _optional(mean) for name, mean in zip(names, means, strict=True)}
    return by_seed


def _comparisons(params: Params, inputs: Inputs) -> Results:
    trained = [method for method in inputs.methods if method != WARMSTART]
    pairs = [(method, REFERENCE) for method in trained if method != REFERENCE and REFERENCE in trained]
    pairs += [(method, WARMSTART) for method in trained]
    return {
        f"{first}_vs_{second}": {split: _differences(params, inputs, first, second, split) for split in SPLITS}
        for first, second in pairs
    }


def _differences(params: Params, inputs: Inputs, first: str, second: str, split: str) -> Results:
    differences = {}
    for metric in METRICS:
        seed = derive_seed("report", params.report.seed, "difference", first, second, split, metric)
        ours, theirs = (inputs.scores[method][split].values[metric] for method in (first, second))
        entry = _entry(difference_interval(ours, theirs, params.report.bootstrap, seed))
        if entry is not None:
            differences[metric] = {"difference": entry.pop("mean"), **entry}
    return differences


def _steps_to_final(inputs: Inputs) -> Results:
    """How soon each method's smoothed training success reaches the level at which the reference ends; {} without it."""
    if REFERENCE not in inputs.curves:
        return {}
    level = learning.final_level(inputs.curves[REFERENCE]["success"])
    reached = {}
    for method, columns in inputs.curves.items():
        steps = [int(step) for step in columns["step"][0]]
        first = learning.first_reaching(columns["success"], steps, level)
        reached[method] = {"step": first.step, "share": _optional(first.share)}
    return {
        "reference": REFERENCE,
        "level": _optional(level),
        "last": learning.LAST,
        "window": learning.WINDOW,
        "steps": inputs.curves[REFERENCE]["step"].shape[1],
        "methods": reached,
    }


def _bfcl(params: Params, inputs: Inputs) -> Results:
    """Per category: the references, n, and each method's accuracy with Wilson's interval over the n distinct items.

    References are those in the warm start's evaluation; ``inputs`` checked that every run met the same items. Categories that no
    run was scored on are left out. checker_raised: items on which the official checker failed, over all runs of a method.
    """
    reference = inputs.figures[WARMSTART][0]["bfcl"]
    categories: Results = {}
    partial = False
    for category in params.evaluate.bfcl_categories:
        n, of = (_number(reference.get(f"{category}_{key}")) for key in ("n", "of"))
        scores = {method: _accuracy(inputs, method, category, n) for method in inputs.methods}
        scores = {method: score for method, score in scores.items() if score is not None}
        if scores:
            partial |= n is not None and of is not None and n < of
            categories[category] = {
                "n": None if n is None else int(n),
                "of": None if of is None else int(of),
                "gold": _optional(_number(reference.get(f"{category}_gold"))),
                "do_nothing": _optional(_number(reference.get(f"{category}_do_nothing"))),
                "scores": scores,
            }
    raised = {
        method: sum(int(_number(run["bfcl"].get("checker_raised")) or 0) for run in inputs.figures[method])
        for method in inputs.methods
    }
    return {
        "package": reference.get("package"),
        "handler": reference.get("handler"),
        "partial": partial,
        "limit": params.evaluate.bfcl_limit,
        "checker_raised": raised,
        "categories": categories,
    }


def _accuracy(inputs: Inputs, method: str, category: str, n: float | None) -> Results | None:
    runs = zip(_names(inputs, method), inputs.figures[method], strict=True)
    found = {name: _number(run["bfcl"].get(f"{category}_accuracy")) for name, run in runs}
    numbers = [value for value in found.values() if value is not None]
    if not numbers:
        return None
    low, high = wilson(fmean(numbers), int(n)) if n else (None, None)
    return {
        "mean": rounded(fmean(numbers)),
        "sd": _deviation(numbers),
        "low": _optional(low),
        "high": _optional(high),
        "seeds": len(numbers),
        "by_seed": {name: _optional(value) for name, value in found.items()},
    }


def _names(inputs: Inputs, method: str) -> list[str]:
    return [WARMSTART] if method == WARMSTART else [str(seed) for seed in inputs.seeds]


def _deviation(numbers: list[float]) -> float | None:
    return rounded(stdev(numbers)) if len(numbers) > 1 else None


def _number(value: Any) -> float | None:
    """A finite number, else None."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) else None


def _contamination(rewards: dict[str, Any]) -> Results:
    """method -> segment -> share, for the keys ``contamination_<method>_<segment>`` that are there."""
    table: Results = {}
    for key, value in rewards.items():
        method, _, segment = key.removeprefix("contamination_").rpartition("_")
        number = _number(value)
        if key.startswith("contamination_") and segment in SEGMENTS and number is not None:
            table.setdefault(method, {})[segment] = rounded(number)
    return table


def _scalars(values: dict[str, Any], leave_out: str) -> Results:
    numbers = {key: _number(value) for key, value in values.items() if not key.startswith(leave_out)}
    return {key: rounded(number) for key, number in numbers.items() if number is not None}


def _versions() -> Results:
    versions: Results = {"python": ".".join(platform.python_version_tuple()[:2])}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return versions
