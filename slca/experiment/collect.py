"""From finished runs to the one nested object that results.json stores; text and figures print its numbers and compute none.

Estimates: mean over seeds of each run's mean over tasks, with the intervals of ``slca.report.intervals`` (seeds and tasks are
drawn again, crossed). A difference is paired by seed and task, over the seeds that both sides have. ``holds_zero`` is the verdict
on a difference: its 95 % interval includes 0. Steps to a level have an interval over seeds alone; a curve that never reaches the
level counts as the step after the last. Everything is rounded to six decimals, here, once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from slca import params as p
from slca.experiment.plan import Cell, Plan
from slca.files import derive_seed
from slca.records import Reward, TaskKind
from slca.report import learning
from slca.report.inputs import in_split
from slca.report.intervals import Floats, Interval, mean_interval
from slca.report.numbers import rounded

SPLITS = ("test", "unseen_tools")
REFERENCE, OURS = "grpo", "slca"
SQUARE = ("grpo", "gdpo", "routed_joint", "slca")
"""The 2 x 2 of normalisation (one scale, a scale for each reward) and routing (both rewards, the own one)."""

METRICS: dict[str, Callable[[Reward], float | None]] = {
    "success": lambda reward: float(reward.success),
    "outcome_success": lambda reward: reward.outcome,
    "process": lambda reward: reward.process,
    "summary": lambda reward: reward.summary_score,
    "redundancy": lambda reward: reward.redundancy,
    "calls": lambda reward: float(reward.calls),
    "sampled_tokens": lambda reward: float(reward.sampled_tokens),
}
COMPARED = ("success", "outcome_success", "process", "summary", "redundancy", "calls", "sampled_tokens", "abstention")
ABSTENTION = (TaskKind.ABSTAIN, TaskKind.MISSING)
SIGNAL = ("zero_variance_tool", "zero_variance_summary", "zero_variance_sum", "zero_variance_both", "presence_tool", "masked")
CURVES = ("step", "rollouts", "sampled_tokens", "success", "process", "summary", "redundancy", "call_rate", *SIGNAL)

Results = dict[str, Any]


@dataclass(frozen=True)
class Made:
    """One finished run: scores of its evaluation, learning curve, contamination of the credit that it was trained on."""

    cell: str
    method: str
    seed: int
    rewards: Sequence[Reward]
    curve: pd.DataFrame
    contamination: dict[str, float]

    @cached_property
    def scores(self) -> dict[str, dict[str, Floats]]:
        return scores_of(self.rewards)


def build(
    plan: Plan,
    params: p.Params,
    made: Sequence[Made],
    warmstart: Sequence[Reward],
    stopped: dict[str, str],
    sources: dict[str, str],
) -> Results:
    """The whole report as plain JSON values, in a fixed order; equal inputs give equal values.

    stopped: runs that stopped themselves, with the reason. sources: the files that all runs share, with their SHA-256.
    """
    found = _Found(made, params.report)
    cells = {cell.name: _cell(plan, params, cell, found) for cell in plan.cells}
    common = plan.common(params)
    names = [f"{cell.name}/{run.name}" for cell, run in plan.runs()]
    there = {f"{run.cell}/{run.method}-{run.seed}" for run in made}
    return {
        "plan": plan.name,
        "title": plan.title,
        "run": {
            "profile": params.profile,
            "steps": common.train.steps,
            "tasks_per_step": common.train.tasks_per_step,
            "group_size": common.rollouts.group_size,
            "tasks": plan.evaluate.model_dump(),
            "evaluation_temperature": common.evaluate.temperature,
            "judge": common.rewards.judge,
            "hierr": common.rewards.hierr,
            "success_threshold": common.rewards.success_threshold,
            "toolpo_success": common.train.toolpo_success,
            "bootstrap": params.report.bootstrap,
        },
        "runs": {
            "planned": len(names),
            "finished": len(made),
            "missing": [name for name in names if name not in there | stopped.keys()],
            "stopped": stopped,
        },
        "warmstart": {split: found.means(("warmstart",), [scores_of(warmstart)], split) for split in SPLITS},
        "cells": cells,
        "noise_cells": sorted(
            (name for name, cell in cells.items() if _only_noise(cell) and cell["methods"]),
            key=lambda name: float(cells[name]["judge_noise"]),
        ),
        "ablation_cells": [name for name, cell in cells.items() if not _only_noise(cell) and cell["against_cell"]],
        "claims": claims(cells),
        "sources": sources,
    }


def _only_noise(cell: Results) -> bool:
    return all((section, *fields) == ("rewards", "judge_noise") for section, fields in cell["set"].items())


def scores_of(rewards: Sequence[Reward]) -> dict[str, dict[str, Floats]]:
    """split -> metric -> (T,), NaN where there is none: masked, or not of the kind (``success_<kind>``, ``abstention``)."""
    table: dict[str, dict[str, Floats]] = {}
    for split in SPLITS:
        rows = sorted((reward for reward in rewards if in_split(reward.task_id, split)), key=lambda row: row.task_id)
        values = {name: _column(rows, metric) for name, metric in METRICS.items()}
        kinds = [row.kind for row in rows]
        for kind in TaskKind:
            values[f"success_{kind}"] = np.where([one is kind for one in kinds], values["success"], np.nan)
        values["abstention"] = np.where([one in ABSTENTION for one in kinds], values["success"], np.nan)
        table[split] = values
    return table


def _column(rows: Sequence[Reward], metric: Callable[[Reward], float | None]) -> Floats:
    return np.array([None if row.masked else metric(row) for row in rows], dtype=np.float64)


class _Found:
    """The finished runs by cell and method, and estimates from them."""

    def __init__(self, made: Sequence[Made], settings: p.Report) -> None:
        self._runs = {(run.cell, run.method, run.seed): run for run in made}
        self._settings = settings

    def seeds(self, cell: str, *methods: str) -> list[int]:
        """Seeds with which all of the methods are finished in the cell."""
        by_method = [{seed for c, m, seed in self._runs if (c, m) == (cell, method)} for method in methods]
        return sorted(set.intersection(*by_method))

    def run(self, cell: str, method: str, seed: int) -> Made:
        return self._runs[cell, method, seed]

    def scores(self, cell: str, method: str, seeds: Sequence[int]) -> list[dict[str, dict[str, Floats]]]:
        return [self.run(cell, method, seed).scores for seed in seeds]

    def curves(self, cell: str, method: str, column: str, seeds: Sequence[int]) -> Floats:
        """(S, steps)"""
        return np.stack([self.run(cell, method, seed).curve[column].to_numpy(dtype=np.float64) for seed in seeds])

    def means(self, name: tuple[str, ...], scores: Sequence[dict[str, dict[str, Floats]]], split: str) -> Results:
        """metric -> estimate, of one method."""
        stacked = {metric: np.stack([run[split][metric] for run in scores]) for metric in scores[0][split]}
        entries = {metric: self.interval(values, *name, split, metric) for metric, values in stacked.items()}
        return {metric: _entry(interval) for metric, interval in entries.items() if interval is not None}

    def contrast(
        self, name: tuple[str, ...], parts: Sequence[tuple[float, str, str]], seeds: Sequence[int], split: str
    ) -> Results:
        """metric -> estimate of a weighted sum of (weight, cell, method), paired by seed and task."""
        weighted = [(weight, self.scores(cell, method, seeds)) for weight, cell, method in parts]
        entries = {}
        for metric in COMPARED:
            values = sum(weight * np.stack([run[split][metric] for run in scores]) for weight, scores in weighted)
            interval = self.interval(np.asarray(values), *name, split, metric)
            if interval is not None:
                entries[metric] = _difference(interval)
        return entries

    def interval(self, values: Floats, *name: str) -> Interval | None:
        return mean_interval(values, self._settings.bootstrap, derive_seed("experiment", self._settings.seed, *name))

    def draws(self, seeds: int, *name: str) -> NDArray[np.int64]:
        """(resamples, S): seeds drawn again."""
        generator = np.random.default_rng(derive_seed("experiment", self._settings.seed, *name))
        return generator.integers(seeds, size=(self._settings.bootstrap, seeds))


def _cell(plan: Plan, params: p.Params, cell: Cell, found: _Found) -> Results:
    own = plan.params_of(cell, params)
    methods = [method for method in cell.methods if found.seeds(cell.name, method)]
    square = all(method in methods for method in SQUARE) and bool(found.seeds(cell.name, *SQUARE))
    return {
        "title": cell.title,
        "set": cell.set,
        "against": cell.against,
        "steps": own.train.steps,
        "judge_noise": own.rewards.judge_noise,
        "methods": {method: _method(cell.name, method, found) for method in methods},
        "differences": {
            method: _against(found, (cell.name, method), (cell.name, REFERENCE))
            for method in methods
            if method != REFERENCE and REFERENCE in methods
        },
        "against_cell": {
            method: _against(found, (cell.name, method), (cell.against, method))
            for method in methods
            if cell.against and found.seeds(cell.against, method)
        },
        "effects": _effects(found, cell.name) if square else {},
        "steps_to_final": _steps_to_final(found, cell.name, methods),
    }


def _method(cell: str, method: str, found: _Found) -> Results:
    seeds = found.seeds(cell, method)
    runs = [found.run(cell, method, seed) for seed in seeds]
    scores = [run.scores for run in runs]
    drawn = {name: found.curves(cell, method, name, seeds) for name in ("rollouts", "sampled_tokens")}
    return {
        "seeds": seeds,
        **{split: found.means((cell, method), scores, split) for split in SPLITS},
        "by_seed": {str(seed): _mean(run[SPLITS[0]]["success"]) for seed, run in zip(seeds, scores, strict=True)},
        "training": {
            "rollouts": rounded(drawn["rollouts"].sum(axis=1).mean()),
            "sampled_tokens": rounded(drawn["sampled_tokens"][:, -1].mean()),  # the column is cumulative
            **{name: rounded(found.curves(cell, method, name, seeds).mean()) for name in SIGNAL},
            **{f"contamination_{name}": _mean([run.contamination[name] for run in runs]) for name in ("tool", "summary")},
        },
    }


def _against(found: _Found, first: tuple[str, str], second: tuple[str, str]) -> Results:
    """Estimates of ``first`` minus ``second``, each a cell and a method, over the seeds that both have."""
    seeds = sorted(set(found.seeds(*first)) & set(found.seeds(*second)))
    if not seeds:
        return {}
    parts = [(1.0, *first), (-1.0, *second)]
    return {"seeds": seeds, **{split: found.contrast((*first, *second), parts, seeds, split) for split in SPLITS}}


def _effects(found: _Found, cell: str) -> Results:
    """Main effects of the 2 x 2: what a choice adds, averaged over the other choice."""
    seeds = found.seeds(cell, *SQUARE)
    signs = {"normalisation": (-0.5, 0.5, -0.5, 0.5), "routing": (-0.5, -0.5, 0.5, 0.5)}
    return {
        effect: {
            split: found.contrast(
                (cell, effect), [(sign, cell, method) for sign, method in zip(of, SQUARE, strict=True)], seeds, split
            )
            for split in SPLITS
        }
        for effect, of in signs.items()
    }


def _steps_to_final(found: _Found, cell: str, methods: Sequence[str]) -> Results:
    """How soon each method reaches the level at which grpo ends, and how much sooner than grpo itself does. {} without grpo."""
    if REFERENCE not in methods:
        return {}
    entries: Results = {}
    for method in methods:
        seeds = found.seeds(cell, method, REFERENCE)
        if not seeds:
            continue
        curves, reference = (found.curves(cell, name, "success", seeds) for name in (method, REFERENCE))
        every = np.arange(len(seeds))
        step, own, level = _steps(curves, reference, every)
        resampled = [_steps(curves, reference, rows) for rows in found.draws(len(seeds), cell, method, "steps")]
        steps = np.array([first for first, _, _ in resampled], dtype=np.float64)
        later = np.array([first - theirs for first, theirs, _ in resampled], dtype=np.float64)
        gain = np.stack([curves.mean(axis=1) - reference.mean(axis=1)], axis=1)
        entries[method] = {
            "step": step,
            "level": rounded(level),
            **_ends(steps),
            "never": rounded(float(np.mean(steps > curves.shape[1]))),
            "than_reference": {"difference": float(step - own), **_ends(later), "seeds": len(seeds)},
            "training_success": _difference_or_none(found.interval(gain, cell, method, "training")),
        }
        verdict = entries[method]["than_reference"]
        verdict["holds_zero"] = verdict["low"] <= 0 <= verdict["high"]
    return entries


def _steps(curves: Floats, reference: Floats, rows: NDArray[np.int64]) -> tuple[int, int, float]:
    """Step at which the method, and the reference, reach the reference's final level, with these seeds; and that level."""
    level = learning.final_level(reference[rows])
    last = curves.shape[1]
    steps = list(range(1, last + 1))
    first, own = (learning.first_reaching(values[rows], steps, level).step for values in (curves, reference))
    return first or last + 1, own or last + 1, level


def _ends(values: Floats) -> Results:
    low, high = np.percentile(values, [2.5, 97.5], method="nearest")
    return {"low": float(low), "high": float(high)}


def claims(cells: dict[str, Results]) -> Results:
    """The published claims on slca against grpo, cell by cell: difference, interval and verdict (``verdict``)."""
    found: Results = {"faster_convergence": {}, "fewer_redundant_calls": {}, "higher_success": {}}
    for name, cell in cells.items():
        steps = cell["steps_to_final"].get(OURS)
        if steps:
            entry = steps["than_reference"]
            judged = {"verdict": verdict(entry, better=-1), "training_success": steps["training_success"]}
            found["faster_convergence"][name] = {**entry, **judged}
        test = cell["differences"].get(OURS, {}).get(SPLITS[0], {})
        for claim, metric, better in (("fewer_redundant_calls", "redundancy", -1), ("higher_success", "success", 1)):
            if metric in test:
                found[claim][name] = {**test[metric], "verdict": verdict(test[metric], better)}
    return found


def verdict(entry: Results, better: int) -> str:
    """What a difference says of a claim that it is positive (better 1) or negative (-1): ``holds``, ``opposite`` or ``open``."""
    if entry["holds_zero"]:
        return "open"
    return "holds" if entry["difference"] * better > 0 else "opposite"


def runs_csv(made: Sequence[Made]) -> str:
    """One row per run: its means on both splits, and its training."""
    rows = []
    for run in made:
        row: Results = {"cell": run.cell, "method": run.method, "seed": run.seed}
        for split, scores in run.scores.items():
            row |= {f"{split}_{metric}": _mean(values) for metric, values in scores.items()}
        row |= {f"training_{name}": rounded(run.curve[name].mean()) for name in SIGNAL}
        row |= {f"contamination_{segment}": rounded(share) for segment, share in run.contamination.items()}
        rows.append(row | {"training_sampled_tokens": int(run.curve["sampled_tokens"].iloc[-1])})
    return pd.DataFrame(rows).to_csv(index=False, lineterminator="\n")


def curves_csv(made: Sequence[Made]) -> str:
    """One row per run and step."""
    frames = [run.curve[list(CURVES)].assign(cell=run.cell, method=run.method, seed=run.seed) for run in made]
    if not frames:
        return "cell,method,seed\n"
    table = pd.concat(frames)[["cell", "method", "seed", *CURVES]]
    return table.to_csv(index=False, float_format="%.6g", lineterminator="\n")


def _mean(values: Any) -> float | None:
    values = np.asarray(values, dtype=np.float64)
    return None if np.isnan(values).all() else rounded(float(np.nanmean(values)))


def _entry(interval: Interval) -> Results:
    return {
        "mean": rounded(interval.mean),
        "sd": None if interval.sd is None else rounded(interval.sd),
        "low": rounded(interval.low),
        "high": rounded(interval.high),
        "seeds": interval.seeds,
        "n": interval.n,
    }


def _difference(interval: Interval) -> Results:
    entry = _entry(interval)
    return {"difference": entry.pop("mean"), **entry, "holds_zero": entry["low"] <= 0 <= entry["high"]}


def _difference_or_none(interval: Interval | None) -> Results | None:
    return None if interval is None else _difference(interval)
