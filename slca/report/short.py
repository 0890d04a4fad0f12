"""The top of results.md, to be read in a minute: what was run, on what, what came out, how sure that is, what it does not show.

Every judgement is made from an interval alone, so the same code writes "raised", "lowered" and "no change shown".
"""

from collections.abc import Mapping, Sequence
from typing import Any

from slca.report.benchmarks import REFERENCES
from slca.report.inputs import SPLITS, WARMSTART
from slca.report.numbers import Results
from slca.report.paper import GROUP
from slca.report.wording import NONE, capital, cell, count, joined, label, percent, share, signed, table

_NOTED = 3  # as many differences are written out; more are found under "Paired differences"


def holds_zero(entry: Mapping[str, Any]) -> bool:
    return bool(entry["low"] <= 0.0 <= entry["high"])


def render(results: Results) -> list[str]:
    """Title and "In short", as blocks."""
    alt = "Success of each method on both splits with seeds, intervals and references, and the paired differences against zero"
    lines = (*verdicts(results), *against_references(results), *_reached(results))
    return [
        "# Results",
        "## In short",
        f"**What was run.** {_run(results)}",
        f"**On what.** {_tasks(results)}",
        "**What came out.** Success, and calls for each task solved; mean over seeds ± their deviation [95 % interval]:",
        _scores(results),
        "\n".join(f"* {line}" for line in lines),
        f"**How sure.** {_sure(results)}",
        f"**What it does not show.** {_limits(results)}",
        f"![{alt}](figures/success.svg)",
    ]


def _run(results: Results) -> str:
    run = results["run"]
    methods = [method for method in results["methods"] if method != WARMSTART]
    noise = f" with noise of deviation {run['judge_noise']:g} in training" if run["judge_noise"] else ""
    faults = f" Faults were injected into {percent(run['fault_rate'])} of the calls." if run["fault_rate"] else ""
    size = f" of {_rough(run['parameters'])} parameters" if run["parameters"] else ""
    return (
        f"{count(methods, 'training method')} ({', '.join(methods)}), each with {count(run['seeds'], 'seed')} "
        f"({', '.join(map(str, run['seeds']))}), from one and the same warm start{size}: {run['steps']} optimizer steps of "
        f"{run['tasks_per_step']} tasks x {run['group_size']} rollouts. Profile `{results['profile']}`, reward `hierr: "
        f"{run['hierr']}`, `tool_reward: {run['tool_reward']}`, judge `{run['judge']}`{noise}.{faults}"
    )


def _rough(number: float) -> str:
    """Three digits: ``1.23 million``."""
    unit, name = next(one for one in ((1e9, " billion"), (1e6, " million"), (1.0, "")) if number >= one[0])
    return f"{number / unit:.3g}{name}"


def _tasks(results: Results) -> str:
    run, tasks = results["run"], results["run"]["tasks"]
    measured = "process score" if run["hierr"] == "strict" else "mean of process and summary"
    return (
        f"The same {tasks['test']} test tasks (held-out phrasings and values) and {tasks['unseen_tools']} tasks on unseen tools "
        f"for all, one rollout each at temperature {run['evaluation_temperature']:g}. Success: the {measured} reaches "
        f"{run['success_threshold']:g}. {bfcl_scope(results)} {tau2_scope(results)}"
    )


def bfcl_scope(results: Results) -> str:
    bfcl = results["bfcl"]
    if not bfcl["categories"]:
        return "BFCL was not run."
    items = f"the first {bfcl['limit']} items of" if bfcl["partial"] else "all items of"
    return f"BFCL: {items} {count(bfcl['categories'], 'category').replace('categorys', 'categories')}."


def tau2_scope(results: Results) -> str:
    tau2 = results["tau2"]
    if not tau2:
        return "tau2 was not run."
    domains = [f"{name} ({entry['n']} of {entry['of']} tasks)" for name, entry in tau2["domains"].items()]
    return f"tau2: {joined(domains)}; user: {tau2['user'] or 'not named'}."


def _scores(results: Results) -> str:
    """Methods and references; the public benchmarks stand beside our own tasks where they were run."""
    test = SPLITS[0]
    benchmarks = _benchmarks(results)
    headings = [*(f"success, {label(split)}" for split in SPLITS), f"calls per solved task, {label(test)}", *benchmarks]
    rows = []
    for method, splits in results["methods"].items():
        own = [*(cell(splits[split].get("success"), 3) for split in SPLITS), cell(splits[test].get("calls_per_solved"), 2)]
        public = [cell(scores.get(method), 3) for scores, _ in benchmarks.values()]
        rows.append([label(method), *own, *public])
    names = measured(results)
    for name in REFERENCES:
        public = [share(references[name]) for _, references in benchmarks.values()]
        own = [NONE] * (len(SPLITS) + 1)
        if name in names:
            figures = results["references"]
            own = [*(share(figures[split][name].get("success")) for split in SPLITS)]
            own.append(share(figures[test][name].get("calls_per_solved"), 2))
        if {*own, *public} != {NONE}:
            rows.append([f"*{label(name)}*", *own, *public])
    return table(["", *headings], rows)


def _benchmarks(results: Results) -> dict[str, tuple[Results, Results]]:
    """Heading -> scores by method, and references, of the published BFCL group and of each tau2 domain."""
    found = {}
    group = results["bfcl"]["groups"].get(GROUP)
    if group:
        found[f"BFCL, `{GROUP}`"] = (group["scores"], group)
    for domain, entry in results["tau2"].get("domains", {}).items():
        found[f"tau2 {domain}, pass^1"] = (entry["scores"]["pass_1"], entry)
    return found


def measured(results: Results) -> list[str]:
    """The references that were measured on our own tasks."""
    return [name for name in REFERENCES if all(name in results["references"].get(split, {}) for split in SPLITS)]


def verdicts(results: Results) -> list[str]:
    """What the paired differences in success say, a line for each split and each thing that is compared with."""
    lines = []
    seconds = dict.fromkeys(name.split("_vs_")[1] for name in results["comparisons"])
    for split in SPLITS:
        for second in seconds:
            found = {
                name.split("_vs_")[0]: splits[split]["success"]
                for name, splits in results["comparisons"].items()
                if name.endswith(f"_vs_{second}") and "success" in splits[split]
            }
            if found:
                lines.append(verdict(split, second, found))
    return lines


def verdict(split: str, second: str, found: Mapping[str, Results]) -> str:
    """found: method -> its paired difference in success to ``second``."""
    names = (
        ("raised by", "lowered by", "no change shown by")
        if second == WARMSTART
        else ("higher for", "lower for", "no difference shown for")
    )
    places = {method: 2 if holds_zero(entry) else int(entry["difference"] < 0) for method, entry in found.items()}
    notes = {method: f" ({signed(entry, 3)})" for method, entry in found.items()}
    groups = _grouped(places, names, notes if len(notes) <= _NOTED else {})
    against = f"the {label(second)}" if second == WARMSTART else label(second)
    return f"{capital(label(split))}, success against {against}: {groups}."


def against_references(results: Results) -> list[str]:
    """Where the methods stand to the better of the two policies that need no model."""
    lines = []
    for split in SPLITS:
        known = {
            name: results["references"][split][name]["success"]
            for name in measured(results)
            if name != "gold" and results["references"][split][name].get("success") is not None
        }
        if known:
            best = max(known, key=lambda name: known[name])
            level = known[best]
            found = {
                method: splits[split]["success"] for method, splits in results["methods"].items() if "success" in splits[split]
            }
            places = {method: 0 if one["low"] > level else 1 if one["high"] < level else 2 for method, one in found.items()}
            groups = _grouped(places, ("above it:", "below it:", "not told apart from it:"), {})
            lines.append(f"{capital(label(split))}, read against {label(best)} ({level:.3f}): {groups}.")
    return lines


def _grouped(places: Mapping[str, int], names: Sequence[str], notes: Mapping[str, str]) -> str:
    """``name a (note) and b (note); name c (note)``, without names for which there is no method. places: method -> its name's."""
    parts = []
    for number, name in enumerate(names):
        members = [f"{label(method)}{notes.get(method, '')}" for method, place in places.items() if place == number]
        if members:
            parts.append(f"{name} {joined(members)}")
    return "; ".join(parts)


def _reached(results: Results) -> list[str]:
    final = results["steps_to_final"]
    if not final:
        return []
    parts = []
    for method, reached in final["methods"].items():
        own = " itself" if method == final["reference"] else ""
        when = "never" if reached["step"] is None else f"first at step {reached['step']}"
        parts.append(f"{method}{own} {when}")
    level = f"{final['reference']}'s final training success ({share(final['level'])})"
    return [f"Training rollouts, {final['steps']} steps: {level} is reached by {', by '.join(parts)}."]


def _sure(results: Results) -> str:
    run = results["run"]
    if len(run["seeds"]) == 1:
        return (
            "One run per method: the intervals cover tasks only, and training again may turn every difference round. "
            "Differences are paired by task."
        )
    return (
        "Intervals are 95 %, over seeds and tasks; differences are paired by task, and by seed between methods; a difference "
        f"whose interval holds zero is not shown. {len(run['seeds'])} seeds say little of training again: taken alone, their "
        f"range holds the median of all seeds in at most {percent(run['seed_coverage'])} of cases. No correction for many "
        "comparisons."
    )


def _limits(results: Results) -> str:
    partial = " The BFCL part is no leaderboard score." if results["bfcl"]["partial"] else ""
    return (
        f"How a larger policy than that of profile `{results['profile']}` would fare, or anything about real users, real "
        "services or human judges: the tasks are this project's own, the tools are simulated, replies are rated by the judge "
        f"`{results['run']['judge']}`.{partial} The published numbers further below are of another model and scale. "
        "[More](#what-this-does-not-show)"
    )
