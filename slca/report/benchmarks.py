"""The public benchmarks' part of results.json: each score beside what answers of no model score on the same items.

References are those in the warm start's evaluation; ``inputs`` checked that every run met the same items. What no run was scored
on is left out.
"""

from statistics import fmean, stdev
from typing import Any

from slca.params import Params
from slca.report.inputs import WARMSTART, Inputs
from slca.report.intervals import wilson
from slca.report.numbers import Results, number, optional, rounded

REFERENCES = ("gold", "do_nothing", "random_call")


def bfcl(params: Params, inputs: Inputs) -> Results:
    """Per category: the references, n, and each method's accuracy with Wilson's interval over the n distinct items.

    groups: means of categories that were all run in full, as the harness forms them; no interval, since a mean of shares is no
    share. unsatisfiable: scored items that no right answer satisfies, with the reason. checker_raised: items on which the
    official checker failed, over all runs of a method.
    """
    reference = inputs.figures[WARMSTART][0]["bfcl"]
    categories: Results = {}
    partial = False
    for category in _named(inputs, "bfcl", "_accuracy"):
        n, of = (_whole(reference.get(f"{category}_{key}")) for key in ("n", "of"))
        partial |= n is not None and of is not None and n < of
        categories[category] = {
            "n": n,
            "of": of,
            **_references(reference, category),
            "scores": _scores(inputs, ("bfcl", f"{category}_accuracy"), n),
        }
    raised = {
        method: sum(int(number(run["bfcl"].get("checker_raised")) or 0) for run in inputs.figures[method])
        for method in inputs.methods
    }
    return {
        "package": reference.get("package"),
        "handler": reference.get("handler"),
        "partial": partial,
        "limit": params.evaluate.bfcl_limit,
        "checker_raised": raised,
        "categories": categories,
        "groups": _groups(inputs),
        "unsatisfiable": dict(reference.get("unsatisfiable") or {}),
    }


def _groups(inputs: Inputs) -> Results:
    groups: Results = {}
    for name, group in (inputs.figures[WARMSTART][0]["bfcl"].get("groups") or {}).items():
        scores = _scores(inputs, ("bfcl", "groups", name, "accuracy"), None)
        if scores:
            references = {key: optional(number(group.get(key))) for key in REFERENCES}
            groups[name] = {**references, "scores": scores}
    return groups


def tau2(inputs: Inputs) -> Results:
    """Per domain: the references, n, and each method's pass^k and reward; {} where no domain was run.

    pass^1 has Wilson's interval over the n tasks, since all trials and seeds meet the same ones. infrastructure: simulations
    that failed for no fault of the policy, over all runs of a method.
    """
    reference = inputs.figures[WARMSTART][0]["tau2"]
    domains: Results = {}
    for domain in _named(inputs, "tau2", "_pass_1"):
        n, of, trials = (_whole(reference.get(f"{domain}_{key}")) for key in ("n", "of", "trials"))
        measured = [f"pass_{k}" for k in range(1, (trials or 1) + 1)]
        scores = {}
        for what in (*measured, "reward"):
            found = _scores(inputs, ("tau2", f"{domain}_{what}"), n if what == "pass_1" else None)
            if found:
                scores[what] = found
        domains[domain] = {
            "n": n,
            "of": of,
            "trials": trials,
            **_references(reference, domain),
            "infrastructure": {
                method: sum(int(number(run["tau2"].get(f"{domain}_infrastructure")) or 0) for run in inputs.figures[method])
                for method in inputs.methods
            },
            "scores": scores,
        }
    if not domains:
        return {}
    return {**{key: reference.get(key) for key in ("package", "user", "scope")}, "domains": domains}


def _named(inputs: Inputs, section: str, ending: str) -> list[str]:
    """What some run has a score for, in the order of the files."""
    runs = [run[section] for method in inputs.methods for run in inputs.figures[method]]
    keys = dict.fromkeys(key for run in runs for key in run if key.endswith(ending) and number(run[key]) is not None)
    return [key.removesuffix(ending) for key in keys]


def _references(reference: dict[str, Any], name: str) -> Results:
    return {key: optional(number(reference.get(f"{name}_{key}"))) for key in REFERENCES}


def _scores(inputs: Inputs, path: tuple[str, ...], n: int | None) -> Results:
    """method -> estimate over its seeds, for the methods that have one. path: keys that lead to the value in the evaluation JSON.
    n: distinct items, for Wilson's interval."""
    scores = {}
    for method in inputs.methods:
        names = zip(names_of(inputs, method), inputs.figures[method], strict=True)
        found = {name: number(_at(run, path)) for name, run in names}
        values = [value for value in found.values() if value is not None]
        if values:
            low, high = wilson(fmean(values), n) if n else (None, None)
            scores[method] = {
                "mean": rounded(fmean(values)),
                "sd": deviation(values),
                "low": optional(low),
                "high": optional(high),
                "seeds": len(values),
                "by_seed": {name: optional(value) for name, value in found.items()},
            }
    return scores


def _at(value: Any, path: tuple[str, ...]) -> Any:
    """What lies at ``path``, else None."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def names_of(inputs: Inputs, method: str) -> list[str]:
    """What a method's runs are called: their seeds; the warm start has one run, whatever its seed."""
    return [WARMSTART] if method == WARMSTART else [str(seed) for seed in inputs.seeds]


def deviation(values: list[float]) -> float | None:
    return rounded(stdev(values)) if len(values) > 1 else None


def _whole(value: Any) -> int | None:
    found = number(value)
    return None if found is None else int(found)
