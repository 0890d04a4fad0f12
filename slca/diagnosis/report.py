"""``slca diagnose`` as a table to read, a JSON file to compute with, and a figure to look at."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from slca.figures import colour, save, style
from slca.files import write_json, write_text

_SEGMENTS = {"tool": "TOOL tokens", "summary": "SUMMARY tokens"}

_SIGNAL = {
    "zero_variance_tool": "groups whose tool rewards are all equal",
    "zero_variance_summary": "groups whose summary rewards are all equal",
    "zero_variance_sum": "groups whose sums are all equal: they teach grpo nothing",
    "zero_variance_both": "groups where both are: they teach slca nothing",
    "presence_tool": "rollouts with TOOL tokens",
    "presence_summary": "rollouts with SUMMARY tokens",
    "masked": "rollouts that could not be scored",
}


def write(folder: Path, source: str, measures: Mapping[str, Any]) -> None:
    """``folder``/diagnosis.{json,md} and contamination.{svg,png}."""
    write_json(folder / "diagnosis.json", {"source": source, **measures})
    write_text(folder / "diagnosis.md", markdown(source, measures))
    with style():
        save(figure(measures), folder / "contamination")


def contamination_rows(measures: Mapping[str, Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Headings and rows: method, contamination of both segments, and gradients where they were measured."""
    measured = measures.get("gradients", {})
    headings = ("method", *(f"contamination of {name}" for name in _SEGMENTS.values()))
    rows: list[tuple[str, ...]] = []
    for method, shares in measures["contamination"].items():
        gradients = _gradient_cells(measured[method]) if measured else ()
        rows.append((method, *(f"{shares[segment]:.3f}" for segment in _SEGMENTS), *gradients))
    return headings + (("gradient cosine", "norm TOOL", "norm SUMMARY") if measured else ()), rows


def signal_rows(measures: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(text, f"{measures['signal'][name]:.3f}") for name, text in _SIGNAL.items()]


def markdown(source: str, measures: Mapping[str, Any]) -> str:
    headings, rows = contamination_rows(measures)
    lines = [
        f"# Credit of {measures['rollouts']} rollouts in {measures['groups']} groups",
        "",
        f"From `{source}`. Contamination: the share of the variance of a segment's advantages, within groups, that the other",
        "segment's reward explains beyond its own.",
        "",
        *_table(headings, rows),
        "",
        *_table(("share", "value"), signal_rows(measures)),
    ]
    lines += [f"\n{method} is left out: {reason}" for method, reason in measures["left_out"].items()]
    lines += ["", "![Contamination by method](contamination.png)"]
    return "\n".join(lines) + "\n"


def figure(measures: Mapping[str, Any]) -> Figure:
    """Contamination of both segments by method, as bars."""
    shares = measures["contamination"]
    drawn = Figure(figsize=(8.0, 1.2 + 0.42 * max(1, len(shares))), layout="constrained")
    for axis, (segment, title) in zip(drawn.subplots(1, 2, sharex=True, sharey=True), _SEGMENTS.items(), strict=True):
        values = [entry[segment] for entry in shares.values()]
        axis.barh(range(len(shares)), values, height=0.6, color=[colour(method) for method in shares])
        for row, value in enumerate(values):
            axis.annotate(f"{value:.3f}", (value, row), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8.5)
        axis.set_yticks(range(len(shares)), list(shares))
        axis.set_ylim(len(shares) - 0.4, -0.6)
        axis.tick_params(axis="y", length=0)
        axis.set_title(f"credit of {title}")
        axis.set_xlabel("share of variance (0 to 1)")
        axis.margins(x=0.25)
        axis.set_xlim(left=0.0)
        axis.grid(axis="x")
    drawn.suptitle(
        "Credit variance that the other segment's reward explains", x=0.01, ha="left", fontsize=10.5, fontweight="bold"
    )
    return drawn


def _gradient_cells(entry: Mapping[str, float | None]) -> tuple[str, ...]:
    values = (entry["cosine"], entry["norm_tool"], entry["norm_summary"])
    return tuple("none" if value is None else f"{value:.3g}" for value in values)


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (headings, ("---",) * len(headings), *rows)]
