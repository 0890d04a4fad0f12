"""The paper's main, ablation and reward-swap tables, with what was measured here beside each published number.

Ours come from the stages of this run and, for what these do not train, from the cells of ``slca experiment``, recognised by the
parameters that they set. A table takes one kind of source for all of its rows where that is there: the main table this run, the
others the experiment, whose cells have the same budget. An experiment under other settings than this run's is left out, and
``unlike`` says in what it differs.
"""

from statistics import fmean
from typing import Any

from slca.params import Params
from slca.report.benchmarks import deviation
from slca.report.numbers import Results, rounded
from slca.report.published import MAIN, PUBLISHED, TABLES

GROUP = "published_13"
"""The BFCL group that holds the categories of the published score."""

# How a published row was trained: method, and what differs from the rest. toolpo's two kinds of success are not told apart here.
_TRAINED = {
    "grpo": ("grpo", ""),
    "slca": ("slca", ""),
    "toolpo (rule)": ("toolpo", ""),
    "toolpo (judge)": ("toolpo", ""),
    "rltr": ("rltr", ""),
    "slca without SGLS": ("slca", "sgls"),
    "slca without HierR": ("slca", "hierr"),
    "grpo, outcome reward": ("grpo", "outcome"),
    "slca, outcome reward": ("slca", "outcome"),
}
_SETS: dict[str, dict[str, dict[str, Any]]] = {
    "": {},
    "sgls": {"simulator": {"schemas": False}},
    "hierr": {"rewards": {"tool_reward": "none"}},
    "outcome": {"rewards": {"tool_reward": "outcome"}},
}


def build(params: Params, methods: Results, bfcl: Results, tau2: Results, experiment: Results) -> Results:
    """unlike: how the experiment differs from this run, empty if it does not. tables: table -> row -> published and ours.

    A row's ``ours`` has ``success`` (test split), ``bfcl_v3`` (the group ``published_13``) and ``tau2`` (pass^1, mean of the
    domains), each an estimate or None, and ``source``, "" where nothing was run.
    """
    unlike = _unlike(params, experiment)
    cells = {} if unlike else experiment.get("cells", {})
    toolpo = (experiment.get("run") or {}).get("toolpo_success")
    tables: Results = {}
    for name, rows in TABLES.items():
        tables[name] = {}
        for heading, published in rows.items():
            method, variant = _TRAINED[published]
            own = _of_run(params, method, variant, published, methods, bfcl, tau2)
            other = _of_experiment(cells, method, variant) if _is(published, toolpo) else None
            first, second = (own, other) if name == MAIN else (other, own)
            tables[name][heading] = {
                "published": PUBLISHED[published],
                "ours": first or second or {"success": None, "bfcl_v3": None, "tau2": None, "source": ""},
            }
    return {
        "unlike": unlike,
        "tau2_domains": list(tau2.get("domains", {})),
        "tables": tables,
    }


def _unlike(params: Params, experiment: Results) -> list[str]:
    if not experiment:
        return []
    run = experiment.get("run") or {}
    train, rewards = params.train, params.rewards
    ours = {
        "profile": params.profile,
        "steps": train.steps,
        "tasks_per_step": train.tasks_per_step,
        "group_size": params.rollouts.group_size,
        "hierr": rewards.hierr,
        "judge": rewards.judge,
        "success_threshold": rewards.success_threshold,
    }
    return [f"{name} {run.get(name)!r} instead of {value!r}" for name, value in ours.items() if run.get(name) != value]


def _is(published: str, toolpo: str | None) -> bool:
    """Whether a row is not one of toolpo's two, or that of the kind of success that was used."""
    return not published.startswith("toolpo") or published == f"toolpo ({toolpo})"


def _of_run(
    params: Params, method: str, variant: str, published: str, methods: Results, bfcl: Results, tau2: Results
) -> Results | None:
    if method not in methods or variant != _variant(params) or not _is(published, params.train.toolpo_success):
        return None
    return {
        "success": methods[method]["test"].get("success"),
        "bfcl_v3": bfcl["groups"].get(GROUP, {}).get("scores", {}).get(method),
        "tau2": _pass_1(tau2, method),
        "source": "this run",
    }


def _variant(params: Params) -> str | None:
    """What of this run's training differs from the default, as far as the tables know it; None for more than one thing."""
    changed = [] if params.simulator.schemas else ["sgls"]
    changed += {"process": [], "none": ["hierr"], "outcome": ["outcome"]}[params.rewards.tool_reward]
    changed += ["noise"] if params.rewards.judge_noise else []
    return "".join(changed) if len(changed) < 2 else None


def _pass_1(tau2: Results, method: str) -> Results | None:
    """Mean of the domains; the interval is that of the domain where there is one alone."""
    found = [
        entry["scores"]["pass_1"][method] for entry in tau2.get("domains", {}).values() if method in entry["scores"]["pass_1"]
    ]
    if len(found) < 2:
        return found[0] if found else None
    by_seed = [
        fmean(values) for seed in found[0]["by_seed"] if None not in (values := [entry["by_seed"][seed] for entry in found])
    ]
    if not by_seed:
        return None
    return {"mean": rounded(fmean(by_seed)), "sd": deviation(by_seed), "low": None, "high": None, "seeds": len(by_seed)}


def _of_experiment(cells: Results, method: str, variant: str) -> Results | None:
    for name, cell in cells.items():
        if cell["set"] == _SETS[variant] and method in cell["methods"]:
            success = cell["methods"][method]["test"].get("success")
            return {"success": success, "bfcl_v3": None, "tau2": None, "source": f"experiment, cell `{name}`"}
    return None
