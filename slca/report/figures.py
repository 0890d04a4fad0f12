"""The four figures of the report, each drawn by one function from numbers that are in results.json or the training CSVs."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from slca.figures import colour, marker, save, style
from slca.report.inputs import SPLITS, WARMSTART
from slca.report.intervals import Floats
from slca.report.learning import WINDOW, seed_mean, trailing_mean
from slca.report.results import SEGMENTS, Results

LABELS = {
    WARMSTART: "warm start",
    "test": "test",
    "unseen_tools": "unseen tools",
    "tool": "TOOL tokens",
    "summary": "SUMMARY tokens",
}


def label(name: str) -> str:
    return LABELS.get(name, name)


def write_all(folder: Path, results: Results, curves: dict[str, dict[str, Floats]]) -> None:
    """Draws every figure into ``folder`` as SVG and PNG."""
    with style():
        save(learning_curves(curves), folder / "learning_curves")
        save(success(results), folder / "success")
        save(contamination(results), folder / "contamination")
        save(bfcl(results), folder / "bfcl")


def learning_curves(curves: dict[str, dict[str, Floats]]) -> Figure:
    """Success, process and summary of the training rollouts by step: a thin line per seed, a thick one for their mean."""
    panels = {"success": "success (share)", "process": "process score", "summary": "summary score"}
    figure = Figure(figsize=(9.6, 3.3), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True)
    for axis, (column, title) in zip(axes, panels.items(), strict=True):
        ends: dict[str, float] = {}
        for method, columns in curves.items():
            steps, smoothed = columns["step"][0], trailing_mean(columns[column])
            for row in smoothed:
                axis.plot(steps, row, color=colour(method), linewidth=0.7, alpha=0.45)
            mean = seed_mean(smoothed)
            axis.plot(steps, mean, color=colour(method), linewidth=2.2)
            if np.isfinite(mean[-1]):
                ends[method] = float(mean[-1])
        axis.set_title(title)
        axis.set_xlabel("optimizer step")
        axis.grid(axis="y")
        _end_labels(axis, float(steps[-1]), ends)
        axis.tick_params(axis="y", length=3 if axis is axes[0] else 0)
    axes[0].set_ylabel(f"mean of {WINDOW} steps (0 to 1)")
    figure.suptitle(
        "Training rollouts at temperature 1: seeds (thin) and their mean (thick)",
        x=0.01,
        ha="left",
        fontsize=10.5,
        fontweight="bold",
    )
    return figure


def success(results: Results) -> Figure:
    """Above: success of every method. Below: paired differences. Dots are seeds, the line is the 95 % interval."""
    methods, comparisons = list(results["methods"]), list(results["comparisons"])
    figure = Figure(figsize=(9.6, 1.5 + 0.38 * (len(methods) + len(comparisons)) + 1.3), layout="constrained")
    axes = figure.subplots(2, len(SPLITS), sharex="row", sharey="row", height_ratios=[len(methods) + 0.6, len(comparisons) + 0.6])
    for upper, lower, split in zip(axes[0], axes[1], SPLITS, strict=True):
        for row, method in enumerate(methods):
            _estimate(
                upper, row, method, results["methods"][method][split].get("success"), results["success_by_seed"][method][split]
            )
        _rows(upper, [label(method) for method in methods])
        upper.set_title(f"{label(split)} ({results['run']['tasks'][split]} tasks)")
        upper.set_xlabel("success (share of tasks)")
        lower.axvline(0.0, color="#444444", linewidth=1.0)
        for row, name in enumerate(comparisons):
            entry = results["comparisons"][name][split].get("success")
            first = name.split("_vs_")[0]
            _estimate(lower, row, first, entry and {**entry, "mean": entry["difference"]}, {}, signed=True)
        _rows(lower, [_pair(name) for name in comparisons])
        lower.set_xlabel("paired difference in success")
    figure.suptitle(
        "Success on held-out tasks: seeds (small), mean and 95 % interval", x=0.01, ha="left", fontsize=10.5, fontweight="bold"
    )
    return figure


def contamination(results: Results) -> Figure:
    """Share of each segment's advantage variance that the other segment's reward explains, by method."""
    table = results["contamination"]
    figure = Figure(figsize=(6.4, 1.5 + 0.62 * max(1, len(table))), layout="constrained")
    axes = figure.subplots(1, len(SEGMENTS), sharex=True, sharey=True)
    for axis, segment in zip(axes, SEGMENTS, strict=True):
        for row, (method, shares) in enumerate(table.items()):
            if segment in shares:
                axis.barh(row, shares[segment], height=0.55, color=colour(method))
                axis.annotate(
                    f"{shares[segment]:.3f}",
                    (shares[segment], row),
                    xytext=(4, 0),
                    textcoords="offset points",
                    va="center",
                    fontsize=9,
                )
        _rows(axis, [label(method) for method in table])
        axis.set_title(f"credit of {label(segment)}")
        axis.set_xlabel("share of variance (0 to 1)")
        axis.margins(x=0.25)
        axis.set_xlim(left=0.0)
    figure.suptitle(
        "Credit variance explained by the other segment's reward", x=0.01, ha="left", fontsize=10.5, fontweight="bold"
    )
    return figure


def bfcl(results: Results) -> Figure:
    """Accuracy per BFCL category with Wilson's interval; dashed lines: what the gold answers and no call at all score."""
    categories = results["bfcl"]["categories"]
    figure = Figure(figsize=(9.6, 3.2), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, max(1, len(categories)), sharex=True, sharey=True))
    methods = list(results["methods"])
    for axis, (category, entry) in zip(axes, categories.items(), strict=False):
        for row, method in enumerate(methods):
            score = entry["scores"].get(method)
            _estimate(axis, row, method, score, score["by_seed"] if score else {})
        _rows(axis, [label(method) for method in methods])
        for value in sorted({entry[name] for name in ("gold", "do_nothing") if entry[name] is not None}):
            text = ", ".join(word for name, word in (("gold", "gold"), ("do_nothing", "no call")) if entry[name] == value)
            axis.axvline(value, color="#444444", linewidth=1.1, linestyle="--", zorder=1)
            side, shift = ("right", -3) if value > 0.5 else ("left", 3)
            axis.annotate(text, (value, -0.62), xytext=(shift, 0), textcoords="offset points", ha=side, va="center", fontsize=8)
        axis.set_title(category if entry["n"] is None else f"{category} (n = {entry['n']})")
        axis.set_xlabel("accuracy (share)")
    axes[0].set_xlim(-0.04, 1.04)
    if not categories:
        axes[0].set_yticks([])
        axes[0].set_title("no category was run")
    scope = "first items of each category" if results["bfcl"]["partial"] else "all items"
    figure.suptitle(
        f"BFCL accuracy, {scope}: seeds (small), mean and 95 % interval",
        x=0.01,
        ha="left",
        fontsize=10.5,
        fontweight="bold",
    )
    return figure


def _estimate(
    axis: Axes, row: int, method: str, entry: dict[str, Any] | None, seeds: dict[str, float | None], signed: bool = False
) -> None:
    """One row: the interval as a line, the mean as a marker with its number above, seeds as small marks below the line."""
    if entry is None:
        return
    hue = colour(method)
    if entry["low"] is not None:
        axis.plot([entry["low"], entry["high"]], [row, row], color=hue, linewidth=2.4, solid_capstyle="butt", zorder=3)
    axis.plot([entry["mean"]], [row], marker=marker(method), color=hue, markersize=7, markeredgecolor="white", zorder=4)
    if len(seeds) > 1:
        levels = row + 0.2 + 0.18 * np.linspace(0.0, 1.0, len(seeds))  # apart, so that equal seeds stay visible
        axis.plot(
            [np.nan if value is None else value for value in seeds.values()], levels, ".", color=hue, markersize=4.5, zorder=3
        )
    number = f"{entry['mean']:+.3f}" if signed else f"{entry['mean']:.3f}"
    axis.annotate(
        number,
        (entry["mean"], row),
        xytext=(0, 6),
        textcoords="offset points",
        ha="center",
        fontsize=8.5,
        color="#222222",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},  # readable across grid lines and the zero line
    )


def _rows(axis: Axes, names: list[str]) -> None:
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.4, -0.75)
    axis.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="x")


def _end_labels(axis: Axes, x: float, ends: dict[str, float]) -> None:
    """Names at the ends of the curves, moved apart where they would overlap."""
    low, high = axis.get_ylim()
    gap = 0.075 * (high - low)
    place = -np.inf
    for method, end in sorted(ends.items(), key=lambda item: item[1]):
        place = max(end, place + gap)
        axis.annotate(
            label(method),
            (x, place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            color=colour(method),
            fontweight="bold",
        )


def _pair(comparison: str) -> str:
    first, second = comparison.split("_vs_")
    return f"{label(first)} minus {label(second)}"
