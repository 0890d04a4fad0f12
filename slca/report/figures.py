"""The figures of the report, each drawn by one function from numbers that are in results.json or the training CSVs.

What policies are read against (answers of no model, ``slca.benchmarks.references``) is drawn in grey, in rows or marks of its
own, and never as a line across others' labels.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from slca.figures import colour, marker, save, style
from slca.report.benchmarks import REFERENCES
from slca.report.inputs import SPLITS
from slca.report.intervals import Floats
from slca.report.learning import WINDOW, seed_mean, trailing_mean
from slca.report.numbers import Results
from slca.report.results import SEGMENTS
from slca.report.wording import label

_COLUMNS = 4
_GREY = "#9a9a9a"
_MARKS = {"gold": "P", "do_nothing": "X", "random_call": "d"}


def write_all(folder: Path, results: Results, curves: dict[str, dict[str, Floats]]) -> None:
    """Draws every figure into ``folder`` as SVG and PNG."""
    with style():
        save(learning_curves(curves), folder / "learning_curves")
        save(success(results), folder / "success")
        save(cost(results), folder / "cost")
        save(contamination(results), folder / "contamination")
        save(bfcl(results), folder / "bfcl")
        save(tau2(results), folder / "tau2")


def learning_curves(curves: dict[str, dict[str, Floats]]) -> Figure:
    """Success, process and summary of the training rollouts by step: the mean of the seeds, in a band from lowest to highest."""
    panels = {"success": "success (share)", "process": "process score", "summary": "summary score"}
    figure = Figure(figsize=(9.6, 3.5), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True)
    for axis, (column, title) in zip(axes, panels.items(), strict=True):
        ends: dict[str, float] = {}
        for method, columns in curves.items():
            steps, smoothed = columns["step"][0], trailing_mean(columns[column])
            there = ~np.isnan(smoothed).all(axis=0)
            low, high = (np.full(len(steps), np.nan) for _ in range(2))
            low[there], high[there] = np.nanmin(smoothed[:, there], axis=0), np.nanmax(smoothed[:, there], axis=0)
            axis.fill_between(steps, low, high, color=colour(method), alpha=0.22, linewidth=0)
            mean = seed_mean(smoothed)
            axis.plot(steps, mean, color=colour(method), linewidth=2.0)
            if np.isfinite(mean[-1]):
                ends[method] = float(mean[-1])
        axis.set_title(title)
        axis.set_xlabel("optimizer step")
        axis.grid(axis="y")
        _end_labels(axis, float(steps[-1]), ends)
        axis.tick_params(axis="y", length=3 if axis is axes[0] else 0)
    axes[0].set_ylabel(f"mean of {WINDOW} steps (0 to 1)")
    _title(figure, "Training rollouts at temperature 1: mean of the seeds, band from the lowest seed to the highest")
    return figure


def success(results: Results) -> Figure:
    """Above: success of every method and reference. Below: paired differences. Dots are seeds, the line is the 95 % interval."""
    methods, comparisons = list(results["methods"]), list(results["comparisons"])
    names = _references(*results["references"].values())
    rows = len(methods) + len(names)
    figure = Figure(figsize=(9.6, 2.4 + 0.38 * (rows + len(comparisons))), layout="constrained")
    heights = [rows + 0.6, len(comparisons) + 0.6]
    axes = figure.subplots(2, len(SPLITS), sharex="row", sharey="row", height_ratios=heights)
    for upper, lower, split in zip(axes[0], axes[1], SPLITS, strict=True):
        for row, method in enumerate(methods):
            by_seed = results["success_by_seed"][method][split]
            _estimate(upper, row, method, results["methods"][method][split].get("success"), by_seed)
        for row, name in enumerate(names, len(methods)):
            value = results["references"][split][name].get("success")
            if value is not None:
                upper.plot([value], [row], marker=_MARKS[name], color=_GREY, markersize=7, markeredgecolor="white", zorder=4)
                _number(upper, value, row, f"{value:.3f}")
        _rows(upper, [*map(label, methods), *map(label, names)])
        upper.set_title(f"{label(split)} ({results['run']['tasks'][split]} tasks)")
        upper.set_xlabel("success (share of tasks)")
        upper.margins(x=0.08)
        lower.axvline(0.0, color="#444444", linewidth=1.0)
        for row, name in enumerate(comparisons):
            entry = results["comparisons"][name][split].get("success")
            first = name.split("_vs_")[0]
            _estimate(lower, row, first, entry and {**entry, "mean": entry["difference"]}, {}, signed=True)
        _rows(lower, [_pair(name) for name in comparisons])
        lower.set_xlabel("paired difference in success")
        lower.margins(x=0.08)
    _title(figure, "Success on held-out tasks: seeds (small), mean and 95 % interval")
    return figure


def cost(results: Results) -> Figure:
    """Success against what a task costs, in calls and in sampled tokens; bars are 95 % intervals of both. Grey: references."""
    axes_names = {"simulated_cost": "calls made per task", "sampled_tokens": "sampled tokens per task"}
    figure = Figure(figsize=(9.6, 6.6), layout="constrained")
    axes = figure.subplots(len(axes_names), len(SPLITS), sharex="row", sharey="row")
    for row, (metric, name) in enumerate(axes_names.items()):
        for axis, split in zip(axes[row], SPLITS, strict=True):
            for method, splits in results["methods"].items():
                x, y = splits[split].get(metric), splits[split].get("success")
                if x and y:
                    hue = colour(method)
                    axis.plot([x["low"], x["high"]], [y["mean"]] * 2, color=hue, linewidth=1.6)
                    axis.plot([x["mean"]] * 2, [y["low"], y["high"]], color=hue, linewidth=1.6)
                    mark: dict[str, Any] = {"marker": marker(method), "color": hue, "markersize": 7, "markeredgecolor": "white"}
                    axis.plot([x["mean"]], [y["mean"]], linestyle="", label=label(method), zorder=4, **mark)
            for one, figures in results["references"].get(split, {}).items():
                if figures.get(metric) is not None and figures.get("success") is not None:  # references sample no tokens
                    point = ([figures[metric]], [figures["success"]])
                    axis.plot(*point, marker=_MARKS[one], color=_GREY, linestyle="", markersize=8, label=label(one), zorder=3)
            axis.set_title(f"{label(split)}: {name.split(' per ')[0]}")
            axis.set_xlabel(name)
            axis.grid()
            axis.margins(0.12)
            axis.set_xlim(left=min(0.0, axis.get_xlim()[0]))
        axes[row][0].set_ylabel("success (share of tasks)")
    named = dict(zip(*reversed(axes[0][0].get_legend_handles_labels()), strict=True))
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=6, frameon=False, fontsize=8.5)
    _title(figure, "Cost against success: mean and 95 % intervals of both (up and to the left is better)")
    return figure


def bfcl(results: Results) -> Figure:
    """Accuracy per BFCL category, with Wilson's interval, beside the references."""
    panels = {
        (name if entry["n"] is None else f"{name}\nn = {entry['n']}"): (entry, entry["scores"])
        for name, entry in results["bfcl"]["categories"].items()
    }
    scope = "first items of each category" if results["bfcl"]["partial"] else "all items"
    return _bars(
        f"BFCL accuracy, {scope}: mean of the seeds and 95 % interval", panels, list(results["methods"]), "accuracy (share)"
    )


def tau2(results: Results) -> Figure:
    """pass^1 per tau2 domain, with Wilson's interval, beside the references."""
    panels = {
        (name if entry["n"] is None else f"{name}\nn = {entry['n']}"): (entry, entry["scores"]["pass_1"])
        for name, entry in results["tau2"].get("domains", {}).items()
    }
    return _bars("tau2 pass^1: mean of the seeds and 95 % interval", panels, list(results["methods"]), "pass^1 (share)")


def _bars(title: str, panels: Mapping[str, tuple[Results, Results]], methods: Sequence[str], unit: str) -> Figure:
    """One panel of bars for each entry: name -> (its references, method -> estimate)."""
    names = [name for name in REFERENCES if any(entry[name] is not None for entry, _ in panels.values())]
    rows = [*methods, *names]
    lines = max(1, -(-len(panels) // _COLUMNS))
    figure = Figure(figsize=(9.6, 0.7 + lines * (1.0 + 0.24 * len(rows))), layout="constrained")
    columns = min(_COLUMNS, max(1, len(panels)))
    axes = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for axis, (name, (entry, scores)) in zip(axes, panels.items(), strict=False):
        for row, one in enumerate(rows):
            score = scores.get(one) if one in methods else _point(entry[one])
            if score is None:
                continue
            axis.barh(row, score["mean"], height=0.68, color=colour(one) if one in methods else _GREY, alpha=0.8)
            end = score["mean"]
            if score["low"] is not None:
                for hue, width in (("white", 2.8), ("#222222", 1.3)):  # seen on light and on dark bars
                    axis.plot([score["low"], score["high"]], [row, row], color=hue, linewidth=width)
                end = score["high"]
            place: dict[str, Any] = {
                "xytext": (4, 0),
                "textcoords": "offset points",
                "va": "center",
                "fontsize": 8,
                "color": "#222222",
            }
            axis.annotate(f"{score['mean']:.3f}", (end, row), **place)
        axis.set_yticks(range(len(rows)), [label(one) for one in rows])
        axis.set_ylim(len(rows) - 0.4, -0.6)
        axis.set_xlim(0.0, 1.32)  # room for a number beside a full bar
        axis.set_xticks([0.0, 0.5, 1.0])
        axis.tick_params(axis="y", length=0)
        axis.grid(axis="x")
        axis.set_title(name, fontsize=9)
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    for axis in axes[max(0, len(panels) - columns) : len(panels)]:
        axis.set_xlabel(unit)
        axis.tick_params(axis="x", labelbottom=True)
    if not panels:
        axes[0].set_title("was not run")
    _title(figure, title)
    return figure


def _point(value: float | None) -> Results | None:
    return None if value is None else {"mean": value, "low": None, "high": None}


def _references(*splits: Mapping[Any, Any]) -> list[str]:
    """The references that were measured, in their order."""
    return [name for name in REFERENCES if any(name in split for split in splits)]


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
    _title(figure, "Credit variance explained by the other segment's reward")
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
    _number(axis, entry["mean"], row, f"{entry['mean']:+.3f}" if signed else f"{entry['mean']:.3f}")


def _number(axis: Axes, x: float, row: int, text: str) -> None:
    """A number above its mark, readable across grid lines and the zero line."""
    box: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    place: dict[str, Any] = {"xytext": (0, 6), "textcoords": "offset points", "ha": "center"}
    axis.annotate(text, (x, row), fontsize=8.5, color="#222222", bbox=box, **place)


def _title(figure: Figure, text: str) -> None:
    figure.suptitle(text, x=0.01, ha="left", fontsize=10.5, fontweight="bold")


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
