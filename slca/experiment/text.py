"""results.md of the experiment, written from the numbers of results.json and from nothing else.

Every judgement is made from an interval (``collect.verdict``), so the same code writes "holds", "does not hold" and "not shown".
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from slca.experiment import prototype
from slca.experiment.collect import OURS, REFERENCE, SPLITS, SQUARE, Results
from slca.records import TaskKind
from slca.report.intervals import seed_coverage
from slca.report.published import COLUMNS, PUBLISHED
from slca.report.wording import cell as estimate
from slca.report.wording import table

TEST, UNSEEN = SPLITS
SPLIT_NAMES = {TEST: "test", UNSEEN: "unseen tools"}
CLAIMS = {
    "faster_convergence": ("Faster convergence", "steps"),
    "fewer_redundant_calls": ("Fewer redundant calls", "redundancy"),
    "higher_success": ("Higher success", "success"),
}
# metric -> (heading, decimals)
SCORES = {
    "success": ("success", 3),
    "outcome_success": ("outcome success", 3),
    "process": ("process", 3),
    "summary": ("summary", 3),
    "redundancy": ("redundancy", 3),
    "calls": ("calls per task", 2),
    "abstention": ("success where no call is right", 3),
    "sampled_tokens": ("sampled tokens per task", 1),
}
_NONE = "-"


def render(results: Results) -> str:
    """The whole of results.md."""
    sections = (_opening, _claims, _unfinished, _noise, _ablations, _learning, _cells, _training, _reading)
    return "\n\n".join(block for section in sections for block in section(results) if block) + "\n"


def claim_sentence(claim: str, entries: Mapping[str, Results], titles: Mapping[str, str]) -> str:
    """What the cells say of a published claim on slca against grpo. entries: cell -> difference with interval and verdict."""
    name, unit = CLAIMS[claim]
    if not entries:
        return f"**{name}: not measured.** No cell has finished runs of both {OURS} and {REFERENCE}."
    found = {entry["verdict"] for entry in entries.values()}
    if found == {"holds"}:
        head = "holds"
    elif "holds" in found:
        head = "depends on the setting" if "opposite" in found else "holds in part"
    else:
        head = "does not hold, the opposite is seen" if "opposite" in found else "not shown"
    meanings = {
        "holds": "It holds with",
        "opposite": "The opposite is seen with",
        "open": "The interval holds zero, so nothing is shown, with",
    }
    parts = []
    for verdict, meaning in meanings.items():
        cells = [f"{titles[name]} ({_evidence(entry, unit)})" for name, entry in entries.items() if entry["verdict"] == verdict]
        if cells:
            parts.append(f"{meaning} {_joined(cells)}.")
    return f"**{name}: {head}.** {' '.join(parts)}"


def _evidence(entry: Results, unit: str) -> str:
    over_all = entry.get("training_success")
    return _signed(entry, unit) + (f"; success over all steps {_signed(over_all, 'success')}" if over_all else "")


def prototype_sentence(what: str, expected: float, entry: Results | None) -> str:
    """Whether our difference in success confirms the sign of the prototype's. what: e.g. "slca minus grpo at noise 0"."""
    theirs = f"{what}: {expected:+.3f} there"
    if entry is None:
        return f"{theirs}; not measured here."
    ours = f"{_signed(entry, 'success')} here"
    if entry["holds_zero"]:
        return f"{theirs}, {ours}: neither confirmed nor refuted (the interval holds zero)."
    agrees = entry["difference"] * expected > 0
    return f"{theirs}, {ours}: the direction is {'confirmed' if agrees else 'refuted'}."


def _opening(results: Results) -> list[str]:
    run, runs = results["run"], results["runs"]
    start = results["warmstart"][TEST]["success"]
    counts = sorted({len(method["seeds"]) for cell in results["cells"].values() for method in cell["methods"].values()})
    seeds = " to ".join(str(count) for count in sorted({*counts[:1], *counts[-1:]})) or "no"
    seeds += " seed per method" if seeds == "1" else " seeds per method"
    verdicts = [f"{CLAIMS[claim][0].lower()} {_count_verdicts(entries)}" for claim, entries in results["claims"].items()]
    steps = sorted({cell["steps"] for cell in results["cells"].values()})
    return [
        "# Experiment",
        f"What was run: plan `{results['plan']}` ({results['title']}) on profile `{run['profile']}`; {runs['finished']} of "
        f"{runs['planned']} runs are finished. Every run starts from the same warm start (test success {start['mean']:.3f}) and "
        f"gets the same budget: {_joined([str(number) for number in steps])} optimizer steps of {run['tasks_per_step']} tasks x "
        f"{run['group_size']} rollouts. It is then measured on the same {run['tasks'][TEST]} test tasks and "
        f"{run['tasks'][UNSEEN]} tasks on unseen tools, one rollout each at temperature {run['evaluation_temperature']:g}, "
        f"without judge noise and on the full simulator. How sure: {seeds}; all intervals are 95 %, over "
        f"seeds and tasks; differences are paired. The published claims on {OURS} against {REFERENCE}: {'; '.join(verdicts)}.",
    ]


def _count_verdicts(entries: Mapping[str, Results]) -> str:
    if not entries:
        return "is not measured"
    found = [entry["verdict"] for entry in entries.values()]
    return (
        f"holds in {found.count('holds')}, is open in {found.count('open')} and turned round in {found.count('opposite')} of "
        f"{len(found)} settings"
    )


def _claims(results: Results) -> list[str]:
    titles = _titles(results)
    lines = [f"* {claim_sentence(claim, entries, titles)}" for claim, entries in results["claims"].items()]
    theirs = " and ".join(f"{PUBLISHED[method]['success']:.2f} for {method}" for method in (OURS, REFERENCE))
    return [
        "## The published claims",
        f"Published, at 7B: {theirs} ({COLUMNS['success']}, percent). Here: {OURS} minus {REFERENCE}, test split. Steps: first "
        f"step at which training success reaches the level at which {REFERENCE} ends, less the step at which {REFERENCE} itself "
        "first reaches it. Where that level is near the start, all reach it at once: the mean success over all steps says more.",
        "\n".join(lines),
    ]


def _unfinished(results: Results) -> list[str]:
    runs = results["runs"]
    blocks = []
    if runs["missing"]:
        by_cell: dict[str, list[str]] = {}
        for name in runs["missing"]:
            by_cell.setdefault(name.split("/")[0], []).append(name.split("/")[1])
        lines = [f"* {_titles(results)[name]}: {', '.join(missing)}" for name, missing in by_cell.items()]
        blocks += [
            f"{len(runs['missing'])} runs are missing; `slca experiment` makes them and writes this again.",
            "\n".join(lines),
        ]
    if runs["stopped"]:
        blocks += ["Runs that stopped themselves:", "\n".join(f"* {name}: {why}" for name, why in runs["stopped"].items())]
    return ["## What is missing", *blocks] if blocks else []


def _noise(results: Results) -> list[str]:
    names = results["noise_cells"]
    if not names:
        return []
    cells = [results["cells"][name] for name in names]
    headings = ["success (test)", *(f"noise {cell['judge_noise']:g}" for cell in cells)]
    rows = [[method, *(_score(cell, method, TEST, "success") for cell in cells)] for method in SQUARE]
    effects = [
        [
            f"{effect}, {SPLIT_NAMES[split]}",
            *(_difference(cell["effects"].get(effect, {}).get(split, {}).get("success"), 3) for cell in cells),
        ]
        for effect in ("normalisation", "routing")
        for split in SPLITS
    ]
    blocks = [
        "## Normalisation and routing, as the judge gets noisier",
        "Noise is the deviation of Gaussian noise on the judge's score (range 0 to 1) in training. One scale for both rewards: "
        "grpo, routed_joint; a scale for each: gdpo, slca. A token hears of both rewards: grpo, gdpo; of its own segment's: "
        "routed_joint, slca.",
        table(headings, rows),
        *_degradation(cells),
        "What each choice adds to success, averaged over the other (main effects):",
        table(["effect", *headings[1:]], effects),
        "![Success and summary of the four methods over judge noise, and the prototype's](figures/noise.svg)",
    ]
    return [*blocks, *_prototype(cells)]


def _degradation(cells: Sequence[Results]) -> list[str]:
    """What noise costs each method, where a cell is compared with another."""
    noisy = [cell for cell in cells if cell["against_cell"]]
    if not noisy:
        return []
    rows = [
        [method, *(_difference(cell["against_cell"].get(method, {}).get(TEST, {}).get("success"), 3) for cell in noisy)]
        for method in SQUARE
    ]
    headings = ["change in success (test)", *(f"noise {cell['judge_noise']:g}" for cell in noisy)]
    return ["What noise changes, against the same method and seeds without it:", table(headings, rows)]


def _prototype(cells: Sequence[Results]) -> list[str]:
    lines, rows = [], []
    for cell in cells:
        noise = float(cell["judge_noise"])
        if noise not in prototype.SUCCESS:
            continue
        expected = prototype.effects(noise)
        ours = {
            "margin": cell["differences"].get(OURS, {}).get(TEST, {}).get("success"),
            **{name: cell["effects"].get(name, {}).get(TEST, {}).get("success") for name in ("normalisation", "routing")},
        }
        names = {"margin": f"{OURS} minus {REFERENCE}", "normalisation": "normalisation", "routing": "routing"}
        lines += [prototype_sentence(f"{names[key]}, noise {noise:g}", expected[key], ours[key]) for key in names]
        for method, (mean, deviation) in prototype.SUCCESS[noise].items():
            rows.append([f"{noise:g}", method, f"{mean:.3f} ± {deviation:.3f}", _score(cell, method, TEST, "success")])
        steps = cell["steps_to_final"].get(OURS)
        if steps:
            lines.append(
                f"Steps of {OURS} to {REFERENCE}'s final success, noise {noise:g}: about {prototype.REACHED[noise]} of "
                f"{prototype.STEPS} there, {_step(steps['step'], cell['steps'])} of {cell['steps']} here."
            )
    if not lines:
        return []
    return [
        "### Beside the prototype",
        "Another setting: a smaller model, one kind of task, a warm start at .32 that ends near .9. Only directions compare.",
        "\n".join(f"* {line}" for line in lines),
        table(["noise", "method", "prototype", "here (test)"], rows),
    ]


def _ablations(results: Results) -> list[str]:
    rows = []
    for name in results["ablation_cells"]:
        cell = results["cells"][name]
        for method, entry in cell["against_cell"].items():
            shown = [(split, metric) for split, metric in _ABLATION if entry]
            cells = [_difference(entry[split].get(metric), SCORES[metric][1]) for split, metric in shown]
            rows.append([f"{method}, {cell['title']}", _score(cell, method, TEST, "success"), *cells])
    if not rows:
        return []
    against = {results["cells"][name]["against"] for name in results["ablation_cells"]}
    headings = [f"{SCORES[metric][0]}, {SPLIT_NAMES[split]}" for split, metric in _ABLATION]
    return [
        "## Ablations",
        f"Each row against the same method and seeds with {_joined([_titles(results)[name] for name in sorted(against)])}. Bold: "
        "the interval excludes zero.",
        table(["ablation", "success, test", *(f"Δ {heading}" for heading in headings)], rows),
        "![Differences in success of each ablation](figures/ablations.svg)",
    ]


_ABLATION = ((TEST, "success"), (TEST, "process"), (TEST, "summary"), (TEST, "redundancy"), (UNSEEN, "success"))


def _learning(results: Results) -> list[str]:
    blocks: list[str] = []
    for name, cell in results["cells"].items():
        entries = cell["steps_to_final"]
        if len(entries) < 2:
            continue
        rows = [
            [
                method,
                f"{entry['level']:.3f}",
                f"{_step(entry['step'], cell['steps'])} [{_step(entry['low'], cell['steps'])}, "
                f"{_step(entry['high'], cell['steps'])}]",
                f"{100 * entry['never']:.0f} %",
                _NONE if method == REFERENCE else _signed(entry["than_reference"], "steps"),
                _NONE if method == REFERENCE else _difference(entry["training_success"], 3),
            ]
            for method, entry in entries.items()
        ]
        blocks += [
            f"**{_capital(cell['title'])}**",
            f"![Training success of each method against {REFERENCE}: mean and range of seeds](figures/learning-{name}.svg)",
            table(["method", "level", "step reached", "never", f"later than {REFERENCE}", "Δ success over all steps"], rows),
        ]
    if not blocks:
        return []
    return [
        "## Learning curves",
        f"Success of the training rollouts. Level: where {REFERENCE} ends with the same seeds. Step: the first whose trailing "
        "mean reaches it; intervals are over seeds alone; `never`: share of resamples that do not reach it.",
        *blocks,
    ]


def _cells(results: Results) -> list[str]:
    blocks = [
        "## Scores, cell by cell",
        "Mean ± deviation over seeds [95 % interval]; differences are bold where it excludes zero.",
    ]
    start = results["warmstart"]
    for cell in results["cells"].values():
        if not cell["methods"]:
            continue
        blocks.append(f"### {_capital(cell['title'])}")
        for split in SPLITS:
            headings = [f"{SPLIT_NAMES[split]}", *(heading for heading, _ in SCORES.values())]
            rows = [_scores("warm start", start[split]), *(_scores(name, one[split]) for name, one in cell["methods"].items())]
            blocks.append(table(headings, rows))
            differences = [
                [f"{name} minus {REFERENCE}", *(_difference(entry[split].get(m), d) for m, (_, d) in SCORES.items())]
                for name, entry in cell["differences"].items()
                if entry
            ]
            if differences:
                blocks.append(table(["paired difference", *headings[1:]], differences))
        kinds = [kind for kind in TaskKind if f"success_{kind}" in start[TEST]]
        rows = [["warm start", *(estimate(start[TEST][f"success_{kind}"], 3) for kind in kinds)]]
        rows += [[m, *(estimate(e[TEST].get(f"success_{kind}"), 3) for kind in kinds)] for m, e in cell["methods"].items()]
        blocks.append(table(["success by kind (test)", *kinds], rows))
    return blocks


def _scores(name: str, entries: Mapping[str, Results]) -> list[str]:
    return [name, *(estimate(entries.get(metric), decimals) for metric, (_, decimals) in SCORES.items())]


def _training(results: Results) -> list[str]:
    columns = {
        "rollouts": (lambda value: f"{value:,.0f}", "rollouts"),
        "sampled_tokens": (lambda value: f"{value:,.0f}", "sampled tokens"),
        "contamination_tool": (lambda value: f"{value:.3f}", "contamination of TOOL credit"),
        "contamination_summary": (lambda value: f"{value:.3f}", "of SUMMARY credit"),
        "zero_variance_tool": (lambda value: f"{value:.3f}", "groups without tool variance"),
        "zero_variance_summary": (lambda value: f"{value:.3f}", "without summary variance"),
        "zero_variance_sum": (lambda value: f"{value:.3f}", "without variance of the sum"),
        "masked": (lambda value: f"{value:.3f}", "masked rollouts"),
    }
    rows = []
    for cell in results["cells"].values():
        for method, entry in cell["methods"].items():
            shown = [_shown(form, entry["training"][name]) for name, (form, _) in columns.items()]
            rows.append([f"{method}, {cell['title']}", str(len(entry["seeds"])), *shown])
    if not rows:
        return []
    return [
        "## Training: budgets, contamination, signal",
        "Means over seeds and steps. Contamination: share of the variance of a segment's advantages, over all training rollouts "
        "of a run, that the other segment's reward explains beyond the own one; 0 for slca by construction. toolpo and rltr have "
        "rewards of their own: theirs is what the other reward happens to explain.",
        table(["runs", "seeds", *(heading for _, heading in columns.values())], rows),
    ]


def _shown(form: Callable[[float], str], value: float | None) -> str:
    return _NONE if value is None else form(value)


def _reading(results: Results) -> list[str]:
    run = results["run"]
    counts = [len(method["seeds"]) for cell in results["cells"].values() for method in cell["methods"].values()]
    methods = {method for cell in results["cells"].values() for method in cell["methods"]}
    lines = [
        f"Intervals: percentile bootstrap, {run['bootstrap']} resamples over seeds and, the same for every seed, tasks. No "
        "correction for many comparisons: about one interval in twenty misses by chance.",
        f"Success: {'process score' if run['hierr'] == 'strict' else 'mean of process and summary'} at or above "
        f"{run['success_threshold']:g}. Summary: judge `{run['judge']}`, without noise. Evaluation is the same in every cell, "
        "whatever a cell was trained on.",
        "One warm start, one small model, this project's own tasks and simulator: nothing here says what happens at 7B.",
    ]
    if counts and min(counts) == 1:
        lines.insert(1, "Where a method has one seed, its intervals cover tasks only and say nothing about training again.")
    elif counts:
        lines.insert(
            1,
            f"With {min(counts)} seeds, the part of an interval that is due to seeds never reaches beyond the lowest and highest "
            f"one, a range that holds the median of all seeds in at most {100 * seed_coverage(min(counts)):.0f} % of cases.",
        )
    if "rltr" in methods:
        lines.append("rltr: replies are written by the frozen warm start in evaluation, as its paper's summariser is frozen.")
    if "toolpo" in methods:
        lines.append(
            f"toolpo: success by `{run['toolpo_success']}`; the published runs differ by tens of points between the two."
        )
    blocks = "\n".join(f"* {line}" for line in lines)
    made = "All numbers: results.json beside this file; single runs in runs.csv, steps in curves.csv."
    return ["## How to read this", blocks, f"{made} Made by `python -m slca experiment --plan {results['plan']}`."]


def _titles(results: Results) -> dict[str, str]:
    return {name: cell["title"] for name, cell in results["cells"].items()}


def _score(cell: Results, method: str, split: str, metric: str) -> str:
    return estimate(cell["methods"].get(method, {}).get(split, {}).get(metric), SCORES[metric][1])


def _difference(entry: Results | None, decimals: int) -> str:
    if entry is None:
        return _NONE
    text = f"{entry['difference']:+.{decimals}f} [{entry['low']:+.{decimals}f}, {entry['high']:+.{decimals}f}]"
    return text if entry["holds_zero"] else f"**{text}**"


def _signed(entry: Results, unit: str) -> str:
    if unit == "steps":
        return f"{entry['difference']:+.0f} steps [{entry['low']:+.0f}, {entry['high']:+.0f}]"
    return f"{entry['difference']:+.3f} [{entry['low']:+.3f}, {entry['high']:+.3f}]"


def _step(step: float, last: int) -> str:
    return f"over {last}" if step > last else f"{step:.0f}"


def _joined(things: Sequence[Any]) -> str:
    return " and ".join(filter(None, [", ".join(things[:-1]), *things[-1:]]))


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
