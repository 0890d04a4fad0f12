"""results.md: the report a newcomer reads in a minute (``short``) and can look further in, written from the numbers of
results.json and from nothing else. ``page`` makes the HTML page of the same text.
"""

from typing import Any

from slca.records import TaskKind
from slca.report import short
from slca.report.benchmarks import REFERENCES
from slca.report.inputs import EXPERIMENT, SPLITS, WARMSTART
from slca.report.numbers import Results
from slca.report.paper import GROUP
from slca.report.published import ABLATIONS, COLUMNS, MAIN, MODEL, REWARDS, SOURCE
from slca.report.results import SEGMENTS
from slca.report.short import holds_zero
from slca.report.wording import NONE, capital, cell, count, label, percent, share, signed, table

# metric -> (heading, decimals)
SCORES = {
    "success": ("success", 3),
    "outcome_success": ("outcome success", 3),
    "process": ("process", 3),
    "summary": ("summary", 3),
    "redundancy": ("redundancy", 3),
    "sampled_tokens": ("sampled tokens per task", 1),
}
COST = {
    "simulated_cost": ("calls per task", 2),
    "calls_per_solved": ("calls per solved task", 2),
    "sampled_tokens": ("sampled tokens per task", 1),
    "tokens_per_solved": ("sampled tokens per solved task", 1),
    "redundancy": ("redundancy", 3),
}
_SIGNAL = ("zero_variance", "presence", "masked")  # of reports/rewards.json, what says whether groups teach anything


def render(results: Results) -> str:
    """The whole of results.md."""
    sections = (
        short.render,
        _main,
        _differences,
        _cost,
        _learning,
        _bfcl,
        _tau2,
        _paper,
        _contamination,
        _kinds,
        _seeds,
        _budgets,
        _intervals,
        _limits,
        _sources,
    )
    return "\n\n".join(block for section in sections for block in section(results) if block) + "\n"


def _main(results: Results) -> list[str]:
    blocks = [
        "## Scores",
        "Mean over seeds ± standard deviation of the seeds [95 % interval]. The warm start is one model: no deviation. Outcome "
        "success: the end state and the returned facts are right, whatever path led there. In italics, answers of no model on "
        "the same tasks: gold plan and reply, executed and scored like a rollout; no call and no reply; one random valid call.",
    ]
    for split in SPLITS:
        title = f"**{capital(label(split))}** ({results['run']['tasks'][split]} tasks)"
        blocks += [title, _metrics_table(results, split, SCORES, masked=True)]
    return blocks


def _metrics_table(results: Results, split: str, metrics: dict[str, tuple[str, int]], masked: bool = False) -> str:
    """A row for each method and each reference."""
    rows = []
    for method, splits in results["methods"].items():
        cells = [cell(splits[split].get(metric), decimals) for metric, (_, decimals) in metrics.items()]
        rows.append([label(method), *cells, *([cell(splits[split].get("masked"), 1)] if masked else [])])
    for name in short.measured(results):
        figures = results["references"][split][name]
        cells = [share(figures.get(metric), decimals) for metric, (_, decimals) in metrics.items()]
        rows.append([f"*{label(name)}*", *cells, *([share(figures.get("masked"), 1)] if masked else [])])
    headings = ["method", *(heading for heading, _ in metrics.values()), *(["masked rollouts"] if masked else [])]
    return table(headings, rows)


def _differences(results: Results) -> list[str]:
    if not results["comparisons"]:
        return []
    blocks = [
        "## Paired differences",
        "Same tasks; against another method also the same seeds. Bold: the 95 % interval excludes zero. Fewer tokens and less "
        "redundancy are not better by themselves.",
    ]
    headings = ["difference", *(heading for heading, _ in SCORES.values())]
    for split in SPLITS:
        rows = []
        for name, splits in results["comparisons"].items():
            first, second = name.split("_vs_")
            cells = [_difference_cell(splits[split].get(metric), decimals) for metric, (_, decimals) in SCORES.items()]
            rows.append([f"{label(first)} minus {label(second)}", *cells])
        blocks += [f"**{capital(label(split))}**", table(headings, rows)]
    return blocks


def _difference_cell(entry: dict[str, Any] | None, decimals: int) -> str:
    if entry is None:
        return NONE
    text = signed(entry, decimals)
    return text if holds_zero(entry) else f"**{text}**"


def _cost(results: Results) -> list[str]:
    blocks = [
        "## Cost",
        "A call stands for one paid call of a real service. Per solved task: everything that was spent, on solved tasks or not, "
        "for each task with success; where nothing is solved there is no such number. Redundancy: calls beyond those of the gold "
        "plan, as a share of the calls made. Doing nothing is free, and solves the tasks that need no call.",
    ]
    for split in SPLITS:
        blocks += [f"**{capital(label(split))}**", _metrics_table(results, split, COST)]
    return [*blocks, "![Success against calls and sampled tokens per task, for each method and reference](figures/cost.svg)"]


def _learning(results: Results) -> list[str]:
    final = results["steps_to_final"]
    alt = "Success, process and summary of the training rollouts by optimizer step: mean of the seeds and range of the seeds"
    blocks = [
        "## Learning",
        "Lines: mean of the seeds; bands: from the lowest seed to the highest.",
        f"![{alt}](figures/learning_curves.svg)",
    ]
    if final:
        rows = [
            [label(method), NONE if reached["step"] is None else str(reached["step"]), percent(reached["share"])]
            for method, reached in final["methods"].items()
        ]
        blocks += [
            f"First step at which a method's training success (mean of {final['window']} steps and of all seeds) reaches the "
            f"level at which {final['reference']} ends ({share(final['level'])}, its mean over the last {final['last']} "
            f"steps). A first crossing of a noisy curve comes early: compare with {final['reference']}'s own.",
            table(["method", "step", f"share of {final['steps']} steps"], rows),
        ]
    return blocks


def _budgets(results: Results) -> list[str]:
    rows = [
        [
            label(method),
            str(budget["seeds"]),
            f"{budget['rollouts']:,.0f}",
            f"{budget['sampled_tokens']:,.0f}",
            f"{budget['sampled_tokens_low']:,.0f} to {budget['sampled_tokens_high']:,.0f}",
        ]
        for method, budget in results["budgets"].items()
    ]
    spread = results["budget_spread"]
    rollouts = (
        "the same number of rollouts" if spread["rollouts"] == 0 else f"rollouts that differ by {percent(spread['rollouts'])}"
    )
    return [
        "## Budgets",
        f"Means per run. The methods drew {rollouts}; sampled tokens differ by {percent(spread['sampled_tokens'])} between the "
        "methods.",
        table(["method", "runs", "rollouts", "sampled tokens", "smallest to largest run"], rows),
    ]


def _bfcl(results: Results) -> list[str]:
    bfcl = results["bfcl"]
    if not bfcl["categories"]:
        return ["## BFCL", "BFCL was not run."]
    names = _known(bfcl["categories"])
    rows = []
    for category, entry in bfcl["categories"].items():
        scores = [cell(entry["scores"].get(method), 3) for method in results["methods"]]
        rows.append([category, _items(entry), *scores, *(share(entry[name]) for name in names)])
    partial = f" `partial: first {bfcl['limit']} items` of each category: not a leaderboard score." if bfcl["partial"] else ""
    raised = ", ".join(f"{label(method)} {count}" for method, count in bfcl["checker_raised"].items())
    handler = f" Handler: {bfcl['handler']}." if bfcl["handler"] else ""
    headings = ["category", "items", *map(label, results["methods"]), *(f"*{label(name)}*" for name in names)]
    return [
        "## BFCL",
        f"Accuracy by the official checker ({bfcl['package'] or 'package not named'}).{partial}{handler} Read each number "
        "against the references on its right: what the published answers score, and what answers of no model score. Intervals "
        f"are Wilson's over the items. Answers on which the checker itself failed, counted as wrong, over all runs: {raised}.",
        table(headings, rows),
        _unsatisfiable(bfcl["unsatisfiable"]),
        *_bfcl_groups(results),
        "![BFCL accuracy per category with intervals, beside the references](figures/bfcl.svg)",
    ]


def _unsatisfiable(reasons: dict[str, str]) -> str:
    """Empty where every scored item can be answered."""
    if not reasons:
        return ""
    items = "; ".join(f"{item} ({reason})" for item, reason in reasons.items())
    return f"No right answer satisfies these of the items: {items}."


def _bfcl_groups(results: Results) -> list[str]:
    groups = results["bfcl"]["groups"]
    if not groups:
        return []
    rows = [
        [
            name,
            *(cell(group["scores"].get(method), 3) for method in results["methods"]),
        ]
        for name, group in groups.items()
    ]
    return [
        f"Means of categories, as BFCL and (`{GROUP}`) the published protocol form them, for groups that were run in full; ± is "
        "the deviation of the seeds.",
        table(["group", *map(label, results["methods"])], rows),
    ]


def _tau2(results: Results) -> list[str]:
    tau2 = results["tau2"]
    if not tau2:
        return ["## tau2", "tau2 was not run."]
    names = _known(tau2["domains"])
    rows = []
    for domain, entry in tau2["domains"].items():
        for what, scores in entry["scores"].items():
            cells = [cell(scores.get(method), 3) for method in results["methods"]]
            heading = what.replace("pass_", "pass^")
            references = [share(entry[name]) if what in ("pass_1", "reward") else NONE for name in names]
            rows.append([domain, heading, _items(entry), str(entry["trials"] or NONE), *cells, *references])
    failed = "; ".join(
        f"{domain}: " + ", ".join(f"{label(method)} {number}" for method, number in entry["infrastructure"].items())
        for domain, entry in tau2["domains"].items()
    )
    scope = f" Scope: {tau2['scope']}." if tau2["scope"] else ""
    headings = ["domain", "score", "tasks", "trials", *map(label, results["methods"]), *(f"*{label(name)}*" for name in names)]
    return [
        "## tau2",
        f"By the official evaluator ({tau2['package'] or 'package not named'}); user: {tau2['user'] or 'not named'}.{scope} "
        "pass^k: the chance that k of a task's trials all solve it, mean over tasks. Doing nothing is right in some tasks: read "
        "each number against it. Intervals are Wilson's over the tasks. Simulations that failed for no fault of the policy, over "
        f"all runs: {failed}.",
        table(headings, rows),
        "![tau2 pass^1 per domain with intervals, beside the references](figures/tau2.svg)",
    ]


def _items(entry: Results) -> str:
    return NONE if entry["n"] is None else f"{entry['n']}" + (f" of {entry['of']}" if entry["of"] is not None else "")


def _known(entries: Results) -> list[str]:
    """The references that some entry has."""
    return [name for name in REFERENCES if any(entry[name] is not None for entry in entries.values())]


def _contamination(results: Results) -> list[str]:
    blocks = [
        "## Credit contamination",
        "Share of the variance of a segment's advantages, across the warm start's rollouts, that the other segment's reward "
        "explains once the own reward is taken out. 0 for slca by construction. What the other reward does to the scale of a "
        "whole group is not counted.",
    ]
    if results["contamination"]:
        headings = ["method", *map(label, SEGMENTS)]
        rows = [
            [label(method), *(share(shares.get(segment)) for segment in SEGMENTS)]
            for method, shares in results["contamination"].items()
        ]
        blocks += [
            table(headings, rows),
            "![Share of credit variance due to the other segment's reward](figures/contamination.svg)",
        ]
    else:
        blocks.append("reports/rewards.json holds no contamination figures.")
    shown = {key: value for key, value in results["calibration"].items() if key.startswith(_SIGNAL)}
    if shown:
        blocks += [
            "The signal in the same rollouts (shares of groups or rollouts; all other figures are in reports/rewards.json):",
            table(["figure", "value"], [[f"`{key}`", f"{value:g}"] for key, value in shown.items()]),
        ]
    return blocks


def _kinds(results: Results) -> list[str]:
    blocks = ["## Success by kind of task"]
    for split in SPLITS:
        rows = []
        for kind in TaskKind:
            entries = [splits[split].get(f"success_{kind}") for splits in results["methods"].values()]
            found = [entry for entry in entries if entry is not None]
            if found:
                rows.append([str(kind), str(max(entry["n"] for entry in found)), *(cell(entry, 3) for entry in entries)])
        if rows:
            blocks += [f"**{capital(label(split))}**", table(["kind", "tasks", *map(label, results["methods"])], rows)]
    return blocks


def _seeds(results: Results) -> list[str]:
    blocks = ["## Success of single runs"]
    seeds = [str(seed) for seed in results["run"]["seeds"]]
    rows = [
        [label(method), label(split), *(share(by_split[split].get(seed)) for seed in seeds)]
        for method, by_split in results["success_by_seed"].items()
        if method != WARMSTART
        for split in SPLITS
    ]
    return [*blocks, table(["method", "split", *(f"seed {seed}" for seed in seeds)], rows)]


def _paper(results: Results) -> list[str]:
    paper = results["paper"]
    titles = {
        MAIN: "Main table",
        ABLATIONS: "Ablations",
        REWARDS: "Process against outcome reward",
    }
    domains = f"tau2 the mean of the domains run ({', '.join(paper['tau2_domains'])})" if paper["tau2_domains"] else "no tau2"
    bfcl = f"BFCL the group `{GROUP}`" if GROUP in results["bfcl"]["groups"] else f"BFCL group `{GROUP}` was not run in full"
    blocks = [
        "## The paper's tables, ours beside them",
        f"**Published: {MODEL}. Ours: profile `{results['profile']}`, another model and scale; not comparable.** All in percent. "
        f"Published ({SOURCE}): other data, a 235B simulator, a 120B judge. Ours: success on the test split, at a threshold of "
        f"{results['run']['success_threshold']:g}; {bfcl}; {domains}. What can be set side by side is the order of the rows, not "
        "their height, and ours only as far as intervals allow. A dash: not run, or not published.",
    ]
    if paper["unlike"]:
        blocks.append(f"`{EXPERIMENT}` is left out, since it was made under other settings: {'; '.join(paper['unlike'])}.")
    for name, title in titles.items():
        rows = []
        for heading, row in paper["tables"][name].items():
            cells = []
            for column in COLUMNS:
                published = row["published"][column]
                cells += [NONE if published is None else f"{published:.2f}", cell(row["ours"][column], 1, 100)]
            success = row["ours"]["success"]
            rows.append([heading, *cells, NONE if success is None else str(success["seeds"]), row["ours"]["source"] or NONE])
        columns = [f"{where} {column}" for column in COLUMNS.values() for where in ("published", "our")]
        blocks += [f"**{title}**", table(["", *columns, "our seeds", "ours: from"], rows)]
    return blocks


def _intervals(results: Results) -> list[str]:
    run = results["run"]
    few = ""
    if len(run["seeds"]) > 1:
        few = (
            f"With {len(run['seeds'])} seeds the part of an interval that is due to seeds never reaches beyond the lowest and "
            f"highest seed, a range that by itself holds the median of all seeds in at most {percent(run['seed_coverage'])} of "
            "cases. Where seeds differ more than tasks do, the intervals are too narrow. "
        )
    return [
        "## How to read the intervals",
        f"Percentile bootstrap, {run['bootstrap']} resamples, seed {run['bootstrap_seed']}: seeds are drawn with replacement, "
        "then tasks, the same tasks for every seed. Rows with one seed (the warm start) resample tasks only and say nothing "
        "about training again. Differences are resampled on the same tasks and seeds, so what both have in common cancels; the "
        "warm start's own training variation is in no interval. Masked rollouts (simulator or judge failed) leave the mean; "
        "they never count as 0. An interval of zero width means that all values are equal, not certainty.",
        f"{few}No correction for many comparisons is made: about one interval in twenty misses by chance.",
    ]


def _limits(results: Results) -> list[str]:
    run = results["run"]
    lines = [
        f"One policy, that of profile `{results['profile']}`. A larger model may gain more, less, or lose.",
        "The tasks are this project's own, made from tool definitions with known answers; unseen tools are held out of the "
        "same catalog. They are not users' requests.",
        "Tool results come from a simulator, not from real services.",
        f"Summaries are rated by the judge `{run['judge']}`, not by people. What a judge does not look at, these numbers do not "
        "show.",
        "Training and evaluation use the same kind of reward: a policy that exploits a gap in the reward gains in both.",
        f"{count(run['seeds'], 'seed')} of one warm start: another warm start may order the methods otherwise.",
    ]
    if results["bfcl"]["partial"]:
        lines.append("BFCL ran on the first items of some categories: its numbers cannot be set beside leaderboard scores.")
    if results["tau2"]:
        lines.append(f"tau2 met the user {results['tau2']['user'] or 'that is not named'}: another user gives other scores.")
    return ["## What this does not show", "\n".join(f"* {line}" for line in lines)]


def _sources(results: Results) -> list[str]:
    groups = {
        "learning curves, steps to the final level, budgets": "data/training/",
        "means, deviations, intervals, differences, costs, masked rollouts, success by kind and by seed": "data/evaluation/",
        "BFCL, tau2 and references (and a check of the means)": "reports/evaluation/",
        "contamination, other figures of the warm start's rollouts": "reports/rewards.json",
        "ablations and other rewards in the paper's tables": EXPERIMENT.as_posix(),
    }
    rows = [
        [what, ", ".join(f"`{path}`" for path in results["sources"] if path.startswith(prefix))]
        for what, prefix in groups.items()
        if any(path.startswith(prefix) for path in results["sources"])
    ]
    versions = ", ".join(f"{name} {value or 'not installed'}" for name, value in results["versions"].items())
    return [
        "## Where every number comes from",
        "All numbers on this page are in `reports/results.json`; its `sources` give the SHA-256 of every file below. The "
        "learning curves lie also in `reports/training/`; the headline numbers, for `dvc metrics diff`, in "
        "`reports/metrics.json`. `reports/results.html` is this page for a browser.",
        table(["numbers", "files"], rows),
        f"Versions: {versions}; BFCL: {results['bfcl']['package'] or 'not named'}.",
        "Made by the stage `report` (`python -m slca report`); `dvc repro report` remakes everything it rests on.",
    ]
