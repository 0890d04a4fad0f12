"""From the checked inputs to the one nested object that results.json stores and that results.md and the figures are drawn from.

Every number is rounded to six decimals here, once: results.md prints these numbers and computes none. Where a number comes
from:

* ``methods``: metrics of single tasks (``inputs.METRICS``, ``success_<kind>``) and costs per solved task are estimated from
  the score tables with intervals; masked rollouts are counted there; what exists only once per run is averaged over seeds from
  the evaluation JSON. The latter two have no interval.
* ``references``: answers of no model on the same tasks, from the warm start's evaluation JSON.
* ``comparisons``: every other method against ``grpo``, and every method against the warm start, paired.
* ``budgets``: last rows of the training CSVs. ``steps_to_final``: training CSVs (see learning.py).
* ``bfcl``, ``tau2``: scores and references from the evaluation JSON (``benchmarks``). ``contamination``, ``calibration``:
  reports/rewards.json. ``paper``: the published tables with ours beside them (``paper``).
"""

import platform
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from statistics import fmean
from typing import Any

import numpy as np

from slca.files import derive_seed
from slca.params import Params
from slca.records import TaskKind
from slca.report import benchmarks, learning, paper
from slca.report.benchmarks import REFERENCES, deviation, names_of
from slca.report.inputs import METRICS, SPLITS, WARMSTART, Inputs
from slca.report.intervals import Floats, Interval, difference_interval, mean_interval, ratio_interval, seed_coverage
from slca.report.numbers import Results, number, optional, rounded

REFERENCE = "grpo"
PACKAGES = ("torch", "transformers", "trl", "numpy", "pyarrow")
SEGMENTS = ("tool", "summary")
COSTS = {"calls_per_solved": "simulated_cost", "tokens_per_solved": "sampled_tokens"}
HEADLINES = ("success", "outcome_success", "process", "redundancy", *COSTS)
"""What reports/metrics.json holds of the in-domain scores."""


def build(params: Params, inputs: Inputs) -> Results:
    """The whole report as plain JSON values, in a fixed order; equal inputs give equal values."""
    methods = {method: {split: _split(params, inputs, method, split) for split in SPLITS} for method in inputs.methods}
    bfcl, tau2 = benchmarks.bfcl(params, inputs), benchmarks.tau2(inputs)
    return {
        "profile": params.profile,
        "run": {
            "seeds": list(inputs.seeds),
            "parameters": number(inputs.figures[WARMSTART][0].get("parameters")),
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
        "methods": methods,
        "references": _references(inputs),
        "success_by_seed": _success_by_seed(inputs),
        "comparisons": _comparisons(params, inputs),
        "steps_to_final": _steps_to_final(inputs),
        "bfcl": bfcl,
        "tau2": tau2,
        "contamination": _contamination(inputs.rewards),
        "calibration": _scalars(inputs.rewards, leave_out="contamination_"),
        "paper": paper.build(params, methods, bfcl, tau2, inputs.experiment),
        "sources": inputs.sources,
        "versions": _versions(),
    }


def headlines(results: Results) -> Results:
    """The few numbers that two versions are compared by (`dvc metrics diff`); names like those of the evaluation JSON."""
    found: Results = {
        split: {
            method: {
                f"{metric}{ending}": splits[split][metric][key]
                for metric in HEADLINES
                if metric in splits[split]
                for key, ending in (("mean", ""), ("low", "_low"), ("high", "_high"))
                if splits[split][metric][key] is not None
            }
            for method, splits in results["methods"].items()
        }
        for split in SPLITS
    }
    named = {
        "bfcl": {name: entry["scores"] for name, entry in (results["bfcl"]["categories"] | results["bfcl"]["groups"]).items()},
        "tau2": {name: entry["scores"]["pass_1"] for name, entry in results["tau2"].get("domains", {}).items()},
    }
    for benchmark, categories in named.items():
        if categories:
            found[benchmark] = {
                name: {method: score["mean"] for method, score in scores.items()} for name, scores in categories.items()
            }
    return found


def _references(inputs: Inputs) -> Results:
    """split -> reference -> metric -> value; {} where the evaluation measured none."""
    measured = inputs.figures[WARMSTART][0]["references"]
    return {
        split: {name: {metric: optional(number(value)) for metric, value in measured[split][name].items()} for name in REFERENCES}
        for split in SPLITS
        if split in measured
    }


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
    for name, cost in COSTS.items():
        seed = derive_seed("report", params.report.seed, "ratio", method, split, name)
        entries[name] = _entry(ratio_interval(scores.values[cost], scores.values["success"], params.report.bootstrap, seed))
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
    return {key: value if isinstance(value, int) else optional(value) for key, value in asdict(interval).items()}


def _per_run(values: list[Any]) -> Results | None:
    numbers = [one for one in map(number, values) if one is not None]
    if not numbers:
        return None
    return {
        "mean": rounded(fmean(numbers)),
        "sd": deviation(numbers),
        "low": None,
        "high": None,
        "seeds": len(numbers),
        "n": None,
    }


def _success_by_seed(inputs: Inputs) -> Results:
    """Success of each single run; the warm start has one, whatever its seed."""
    by_seed: Results = {}
    for method in inputs.methods:
        names = names_of(inputs, method)
        by_seed[method] = {}
        for split in SPLITS:
            rows = inputs.scores[method][split].values["success"]
            means = [float("nan") if np.isnan(row).all() else float(np.nanmean(row)) for row in rows]
            by_seed[method][split] = {name: optional(mean) for name, mean in zip(names, means, strict=True)}
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
        reached[method] = {"step": first.step, "share": optional(first.share)}
    return {
        "reference": REFERENCE,
        "level": optional(level),
        "last": learning.LAST,
        "window": learning.WINDOW,
        "steps": inputs.curves[REFERENCE]["step"].shape[1],
        "methods": reached,
    }


def _contamination(rewards: dict[str, Any]) -> Results:
    """method -> segment -> share, for the keys ``contamination_<method>_<segment>`` that are there."""
    table: Results = {}
    for key, value in rewards.items():
        method, _, segment = key.removeprefix("contamination_").rpartition("_")
        share = number(value)
        if key.startswith("contamination_") and segment in SEGMENTS and share is not None:
            table.setdefault(method, {})[segment] = rounded(share)
    return table


def _scalars(values: dict[str, Any], leave_out: str) -> Results:
    numbers = {key: number(value) for key, value in values.items() if not key.startswith(leave_out)}
    return {key: rounded(found) for key, found in numbers.items() if found is not None}


def _versions() -> Results:
    versions: Results = {"python": ".".join(platform.python_version_tuple()[:2])}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return versions
