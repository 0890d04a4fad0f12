"""The experiment's figures, drawn from results.json and the learning curves alone; how figures look is in ``slca.figures``."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from slca.experiment import prototype
from slca.experiment.collect import REFERENCE, SPLITS, SQUARE, Made, Results
from slca.figures import colour, marker, save, style
from slca.report.intervals import Floats
from slca.report.learning import WINDOW, seed_mean, trailing_mean

_COLUMNS = 3


def write_all(folder: Path, results: Results, made: Sequence[Made]) -> None:
    """Draws every figure for which there are runs, as SVG and PNG."""
    with style():
        if results["noise_cells"]:
            save(noise(results), folder / "noise")
        if results["ablation_cells"]:
            save(ablations(results), folder / "ablations")
        for name, cell in results["cells"].items():
            if len(cell["steps_to_final"]) > 1:
                curves = {method: _curves(made, name, method) for method in cell["methods"]}
                save(learning(cell["title"], curves), folder / f"learning-{name}")


def noise(results: Results) -> Figure:
    """The 2 x 2 over judge noise: test success and summary here, success of the prototype; lines are 95 % intervals (here) or
    deviations of seeds (prototype)."""
    cells = [results["cells"][name] for name in results["noise_cells"]]
    figure = Figure(figsize=(9.6, 3.6), layout="constrained")
    axes = figure.subplots(1, 3)
    for axis, metric in zip(axes, ("success", "summary"), strict=False):
        for place, method in enumerate(SQUARE):
            there = [
                (cell["judge_noise"], cell["methods"][method][SPLITS[0]][metric]) for cell in cells if method in cell["methods"]
            ]
            points = [(level, entry["mean"], entry["low"], entry["high"]) for level, entry in there]
            _line(axis, method, place, points)
        axis.set_title(f"{metric} (test)")
    for place, method in enumerate(SQUARE):
        entries = [(level, *by_method[method]) for level, by_method in prototype.SUCCESS.items()]
        _line(axes[2], method, place, [(level, mean, mean - sd, mean + sd) for level, mean, sd in entries])
    axes[2].set_title("prototype's success (another setting)")
    for axis in axes:
        axis.set_xlabel("judge noise in training (deviation)")
        axis.set_xticks(
            sorted({float(cell["judge_noise"]) for cell in cells} | (set(prototype.SUCCESS) if axis is axes[2] else set()))
        )
        axis.grid(axis="y")
    axes[0].set_ylabel("mean over seeds (0 to 1)")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False, fontsize=8.5)
    figure.suptitle("Normalisation and routing as the judge gets noisier", x=0.01, ha="left", fontsize=10.5, fontweight="bold")
    return figure


def _line(axis: Axes, method: str, place: int, points: Sequence[tuple[float, float, float, float]]) -> None:
    if not points:
        return
    shift = 0.015 * (place - (len(SQUARE) - 1) / 2)  # apart, so that intervals stay readable
    levels, means, lows, highs = np.array(points).T
    axis.plot(levels + shift, means, color=colour(method), marker=marker(method), label=method, linewidth=1.8)
    axis.vlines(levels + shift, lows, highs, color=colour(method), linewidth=1.3)


def learning(title: str, curves: dict[str, Floats]) -> Figure:
    """Training success by step, one panel per method against grpo: mean of the seeds, and a band from lowest to highest."""
    others = [method for method in curves if method != REFERENCE]
    rows = -(-len(others) // _COLUMNS)
    figure = Figure(figsize=(9.6, 2.5 * rows + 0.5), layout="constrained")
    axes = figure.subplots(rows, _COLUMNS, sharex=True, sharey=True, squeeze=False).ravel()
    for axis, method in zip(axes, others, strict=False):
        for name in (REFERENCE, method):
            smoothed = trailing_mean(curves[name])
            steps = np.arange(1, smoothed.shape[1] + 1)
            axis.fill_between(steps, smoothed.min(axis=0), smoothed.max(axis=0), color=colour(name), alpha=0.2, linewidth=0)
            axis.plot(steps, seed_mean(smoothed), color=colour(name), linewidth=1.8, label=name)
        axis.set_title(f"{method} ({len(curves[method])} seeds)")
        axis.grid(axis="y")
        axis.legend(frameon=False, fontsize=8.5, loc="upper left")
        axis.set_xlabel("optimizer step")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axis in axes[len(others) :]:
        axis.set_axis_off()
    axes[0].set_ylabel(f"success, mean of {WINDOW} steps")
    figure.suptitle(f"Training success, {title}: mean and range of seeds", x=0.01, ha="left", fontsize=10.5, fontweight="bold")
    return figure


def ablations(results: Results) -> Figure:
    """Paired difference in success of every ablation to the same method without it, with its 95 % interval."""
    rows = [
        (method, f"{method}, {results['cells'][name]['title']}", entry)
        for name in results["ablation_cells"]
        for method, entry in results["cells"][name]["against_cell"].items()
        if entry
    ]
    figure = Figure(figsize=(9.6, 1.2 + 0.36 * len(rows)), layout="constrained")
    axes = figure.subplots(1, len(SPLITS), sharey=True)
    for axis, split in zip(axes, SPLITS, strict=True):
        axis.axvline(0.0, color="#444444", linewidth=1.0)
        for row, (method, _, entry) in enumerate(rows):
            success = entry[split].get("success")
            if success is not None:
                axis.plot([success["low"], success["high"]], [row, row], color=colour(method), linewidth=2.2)
                axis.plot([success["difference"]], [row], color=colour(method), marker=marker(method), markeredgecolor="white")
        axis.set_title(split.replace("_", " "))
        axis.set_xlabel("difference in success")
        axis.set_yticks(range(len(rows)), [name for _, name, _ in rows])
        axis.set_ylim(len(rows) - 0.4, -0.6)
        axis.xaxis.set_major_locator(MaxNLocator(5))
        axis.grid(axis="x")
    figure.suptitle("What each ablation changes", x=0.01, ha="left", fontsize=10.5, fontweight="bold")
    return figure


def _curves(made: Sequence[Made], cell: str, method: str) -> Floats:
    """(S, steps), seeds ascending."""
    runs = sorted((run for run in made if (run.cell, run.method) == (cell, method)), key=lambda run: run.seed)
    return np.stack([run.curve["success"].to_numpy(dtype=np.float64) for run in runs])
