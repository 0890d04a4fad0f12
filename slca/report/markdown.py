"""results.md: the report a newcomer reads in a minute, written from the numbers of results.json and from nothing else.

Sentences on differences are generated from the interval alone, so they say "lower" and "no difference shown" as readily as
"higher".
"""

from collections.abc import Sequence
from typing import Any

from slca.records import TaskKind
from slca.report.figures import label
from slca.report.inputs import SPLITS, WARMSTART
from slca.report.published import COLUMNS, MODEL, SOURCE
from slca.report.results import SEGMENTS, Results

# metric -> (heading, decimals)
MAIN = {
    "success": ("success", 3),
    "outcome_success": ("outcome success", 3),
    "process": ("process", 3),
    "summary": ("summary", 3),
    "redundancy": ("redundancy", 3),
    "sampled_tokens": ("sampled tokens per task", 1),
}
_NONE = "-"
_SIGNAL = ("zero_variance", "presence", "masked")  # of reports/rewards.json, what says whether groups teach anything


def render(results: Results) -> str:
    """The whole of results.md."""
    sections = (
        _opening,
        _short,
        _main,
        _differences,
        _learning,
        _budgets,
        _bfcl,
        _contamination,
        _kinds,
        _seeds,
        _published,
        _intervals,
        _limits,
        _sources,
    )
    return "\n\n".join(block for section in sections for block in section(results) if block) + "\n"


def cell(entry: dict[str, Any] | None, decimals: int) -> str:
    """``mean ± sd [low, high]``; what is not known is left out."""
    if entry is None:
        return _NONE
    text = f"{entry['mean']:.{decimals}f}"
    if entry["sd"] is not None:
        text += f" ± {entry['sd']:.{decimals}f}"
    if entry["low"] is not None:
        text += f" [{entry['low']:.{decimals}f}, {entry['high']:.{decimals}f}]"
    return text


def holds_zero(entry: dict[str, Any]) -> bool:
    return bool(entry["low"] <= 0.0 <= entry["high"])


def difference_sentence(first: str, second: str, split: str, entry: dict[str, Any]) -> str:
    """What a paired difference in success says, and no more."""
    difference, low, high = entry["difference"], entry["low"], entry["high"]
    what = f"{_capital(label(split))}: {label(first)}'s success is "
    if difference == 0:
        what += f"equal to {_possessive(second)}"
    else:
        what += f"{abs(difference):.3f} {'higher' if difference > 0 else 'lower'} than {_possessive(second)}"
    what += f" (95 % interval of the difference [{low:+.3f}, {high:+.3f}])"
    if holds_zero(entry):
        meaning = "changed it" if second == WARMSTART else "differ"
        subject = "that training" if second == WARMSTART else "that the two"
        return f"{what}; the interval holds zero: this run does not show {subject} {meaning}."
    if second == WARMSTART:
        return f"{what}; the interval excludes zero: training {'raised' if difference > 0 else 'lowered'} success."
    return f"{what}; the interval excludes zero."


def _opening(results: Results) -> list[str]:
    run = results["run"]
    methods = [method for method in results["methods"] if method != WARMSTART]
    tasks, seeds = run["tasks"], run["seeds"]
    noise = (
        f" with Gaussian noise of deviation {run['judge_noise']:g} in training, none in evaluation" if run["judge_noise"] else ""
    )
    faults = f" Faults were injected into {_percent(run['fault_rate'])} of the calls." if run["fault_rate"] else ""
    measured = "process score" if run["hierr"] == "strict" else "mean of process and summary"
    return [
        "# Results",
        f"Profile `{results['profile']}`. {_count(methods, 'training method')} ({', '.join(methods)}), each with "
        f"{_count(seeds, 'seed')} ({', '.join(map(str, seeds))}), started from one and the same warm start and ran "
        f"{run['steps']} optimizer steps of {run['tasks_per_step']} tasks x {run['group_size']} rollouts. All were then "
        f"measured on the same {tasks['test']} test tasks (held-out phrasings and values) and {tasks['unseen_tools']} tasks on "
        f"unseen tools, at temperature {run['evaluation_temperature']:g}. Reward: `hierr: {run['hierr']}`, `tool_reward: "
        f"{run['tool_reward']}`, judge `{run['judge']}`{noise}.{faults} Success means that a task's {measured} reaches "
        f"{run['success_threshold']:g}; outcome success means that the end state and the returned facts are right, whatever "
        "path led there.",
    ]


def _short(results: Results) -> list[str]:
    lines = []
    for name, splits in results["comparisons"].items():
        first, second = name.split("_vs_")
        lines += [
            difference_sentence(first, second, split, splits[split]["success"]) for split in SPLITS if "success" in splits[split]
        ]
    lines += [_reached_sentence(results)] if results["steps_to_final"] else []
    if len(results["run"]["seeds"]) == 1:
        lines.append("One run per method: the intervals cover tasks only, and training again may turn every difference round.")
    alt = "Success of each method on both splits with seeds and intervals, and the paired differences against zero"
    return ["## In short", "\n".join(f"* {line}" for line in lines), f"![{alt}](figures/success.svg)"]


def _main(results: Results) -> list[str]:
    blocks = [
        "## Scores",
        "Mean over seeds ± standard deviation of the seeds [95 % interval]. The warm start is one model: no deviation.",
    ]
    headings = ["method", *(heading for heading, _ in MAIN.values()), "masked rollouts"]
    for split in SPLITS:
        rows = []
        for method, splits in results["methods"].items():
            entries = splits[split]
            cells = [cell(entries.get(metric), decimals) for metric, (_, decimals) in MAIN.items()]
            rows.append([label(method), *cells, cell(entries.get("masked"), 1)])
        blocks += [f"**{_capital(label(split))}** ({results['run']['tasks'][split]} tasks)", table(headings, rows)]
    return blocks


def _differences(results: Results) -> list[str]:
    if not results["comparisons"]:
        return []
    blocks = [
        "## Paired differences",
        "Same tasks; against another method also the same seeds. Bold: the 95 % interval excludes zero. Fewer tokens and less "
        "redundancy are not better by themselves.",
    ]
    headings = ["difference", *(heading for heading, _ in MAIN.values())]
    for split in SPLITS:
        rows = []
        for name, splits in results["comparisons"].items():
            first, second = name.split("_vs_")
            cells = [_difference_cell(splits[split].get(metric), decimals) for metric, (_, decimals) in MAIN.items()]
            rows.append([f"{label(first)} minus {label(second)}", *cells])
        blocks += [f"**{_capital(label(split))}**", table(headings, rows)]
    return blocks


def _difference_cell(entry: dict[str, Any] | None, decimals: int) -> str:
    if entry is None:
        return _NONE
    text = f"{entry['difference']:+.{decimals}f} [{entry['low']:+.{decimals}f}, {entry['high']:+.{decimals}f}]"
    return text if holds_zero(entry) else f"**{text}**"


def _learning(results: Results) -> list[str]:
    final = results["steps_to_final"]
    alt = "Success, process and summary of the training rollouts by optimizer step, one thin line per seed and their mean"
    blocks = ["## Learning", f"![{alt}](figures/learning_curves.svg)"]
    if final:
        rows = [
            [label(method), _NONE if reached["step"] is None else str(reached["step"]), _percent(reached["share"])]
            for method, reached in final["methods"].items()
        ]
        blocks += [
            f"First step at which a method's training success (mean of {final['window']} steps and of all seeds) reaches the "
            f"level at which {final['reference']} ends ({_share(final['level'])}, its mean over the last {final['last']} "
            f"steps). A first crossing of a noisy curve comes early: compare with {final['reference']}'s own.",
            table(["method", "step", f"share of {final['steps']} steps"], rows),
        ]
    return blocks


def _reached_sentence(results: Results) -> str:
    final = results["steps_to_final"]
    parts = []
    for method, reached in final["methods"].items():
        own = " itself" if method == final["reference"] else ""
        when = "never" if reached["step"] is None else f"first at step {reached['step']}"
        parts.append(f"{method}{own} {when}")
    level = f"{final['reference']}'s final training success ({_share(final['level'])})"
    return f"Training rollouts, {final['steps']} steps: {level} is reached by {', by '.join(parts)}."


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
        "the same number of rollouts" if spread["rollouts"] == 0 else f"rollouts that differ by {_percent(spread['rollouts'])}"
    )
    return [
        "## Budgets",
        f"Means per run. The methods drew {rollouts}; sampled tokens differ by {_percent(spread['sampled_tokens'])} between the "
        "methods.",
        table(["method", "runs", "rollouts", "sampled tokens", "smallest to largest run"], rows),
    ]


def _bfcl(results: Results) -> list[str]:
    bfcl = results["bfcl"]
    if not bfcl["categories"]:
        return ["## BFCL", "No category was run."]
    rows = []
    for category, entry in bfcl["categories"].items():
        count = _NONE if entry["n"] is None else str(entry["n"]) + (f" of {entry['of']}" if entry["of"] is not None else "")
        scores = [cell(entry["scores"].get(method), 3) for method in results["methods"]]
        rows.append([category, count, *scores, _share(entry["gold"]), _share(entry["do_nothing"])])
    partial = f" `partial: first {bfcl['limit']} items` of each category: not a leaderboard score." if bfcl["partial"] else ""
    raised = ", ".join(f"{label(method)} {count}" for method, count in bfcl["checker_raised"].items())
    handler = f" Handler: {bfcl['handler']}." if bfcl["handler"] else ""
    headings = ["category", "items", *map(label, results["methods"]), "gold answers", "no call at all"]
    return [
        "## BFCL",
        f"Accuracy by the official checker ({bfcl['package'] or 'package not named'}).{partial}{handler} Read each number "
        "against the two references: what the published answers score, and what a policy scores that never calls. Intervals "
        f"are Wilson's over the items. Answers on which the checker itself failed, counted as wrong, over all runs: {raised}.",
        table(headings, rows),
        "![BFCL accuracy per category with seeds, intervals, and the scores of gold answers and of no call](figures/bfcl.svg)",
    ]


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
            [label(method), *(_share(shares.get(segment)) for segment in SEGMENTS)]
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
            blocks += [f"**{_capital(label(split))}**", table(["kind", "tasks", *map(label, results["methods"])], rows)]
    return blocks


def _seeds(results: Results) -> list[str]:
    blocks = ["## Success of single runs"]
    seeds = [str(seed) for seed in results["run"]["seeds"]]
    rows = [
        [label(method), label(split), *(_share(by_split[split].get(seed)) for seed in seeds)]
        for method, by_split in results["success_by_seed"].items()
        if method != WARMSTART
        for split in SPLITS
    ]
    return [*blocks, table(["method", "split", *(f"seed {seed}" for seed in seeds)], rows)]


def _published(results: Results) -> list[str]:
    rows = [
        [name, *(_NONE if numbers[column] is None else f"{numbers[column]:.2f}" for column in COLUMNS)]
        for name, numbers in results["published"].items()
    ]
    return [
        "## Published numbers: another model, another scale",
        f"{SOURCE}, {MODEL}, percent. Other data, a 235B simulator, a 120B judge, other benchmark subsets. They stand here for "
        "orientation; they are not comparable with the tables above, and nothing above reproduces them.",
        table(["published method (7B)", *COLUMNS.values()], rows),
    ]


def _intervals(results: Results) -> list[str]:
    run = results["run"]
    few = ""
    if len(run["seeds"]) > 1:
        few = (
            f"With {len(run['seeds'])} seeds the part of an interval that is due to seeds never reaches beyond the lowest and "
            f"highest seed, a range that by itself holds the median of all seeds in at most {_percent(run['seed_coverage'])} of "
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
        f"{_count(run['seeds'], 'seed')} of one warm start: another warm start may order the methods otherwise.",
    ]
    if results["bfcl"]["partial"]:
        lines.append("BFCL ran on a part of a part: its numbers cannot be set beside leaderboard scores.")
    return ["## What this does not show", "\n".join(f"* {line}" for line in lines)]


def _sources(results: Results) -> list[str]:
    groups = {
        "learning curves, steps to the final level, budgets": "data/training/",
        "means, deviations, intervals, differences, masked rollouts, success by kind and by seed": "data/evaluation/",
        "BFCL accuracy and references, calls made (and a check of the means)": "reports/evaluation/",
        "contamination, other figures of the warm start's rollouts": "reports/rewards.json",
    }
    rows = [
        [what, ", ".join(f"`{path}`" for path in results["sources"] if path.startswith(prefix))]
        for what, prefix in groups.items()
    ]
    versions = ", ".join(f"{name} {value or 'not installed'}" for name, value in results["versions"].items())
    return [
        "## Where every number comes from",
        "All numbers on this page are in `reports/results.json`; its `sources` give the SHA-256 of every file below. The "
        "learning curves lie also in `reports/training/`.",
        table(["numbers", "files"], rows),
        f"Versions: {versions}; BFCL: {results['bfcl']['package'] or 'not named'}.",
        "Made by the stage `report` (`python -m slca report`); `dvc repro report` remakes everything it rests on.",
    ]


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: first column to the left, the others to the right."""
    rule = [":--", *("--:" for _ in headings[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in (headings, rule, *rows))


def _count(things: Sequence[Any], name: str) -> str:
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}"


def _share(value: float | None) -> str:
    return _NONE if value is None else f"{value:.3f}"


def _percent(value: float | None) -> str:
    return _NONE if value is None else f"{100 * value:.1f} %"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _possessive(method: str) -> str:
    return f"{'the ' if method == WARMSTART else ''}{label(method)}'s"
