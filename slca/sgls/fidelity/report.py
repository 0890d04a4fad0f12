"""The fidelity report: what was measured, as numbers, as a table to read and as a figure."""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from matplotlib.figure import Figure

from slca.figures import save, style
from slca.files import write_json, write_text
from slca.params import Simulator
from slca.records import CallError, State
from slca.sgls.fidelity.calls import CHANGES, Advance, Made, again, exercise, is_refusal, is_valid, seed_agreement
from slca.sgls.fidelity.invariants import CHECKS, check_invariants
from slca.sgls.tool import Tool

Measures = dict[str, Any]

Progress = Callable[[str, int], Advance]
"""Begins a piece of work: its name and how many calls it takes -> what is told of them, as ``slca.bars.Bars.add``."""

_SHOWN_BREACHES = 20


def measure(tools: Sequence[Tool], state: State, params: Simulator, calls: int, progress: Progress) -> Measures:
    """``calls`` calls of every tool, and as many records of every entity."""
    done = exercise(tools, state, params, calls, progress("drawn calls", calls * len(tools)))
    assert done.session is not None
    counts = done.session.counts
    number = len(done.made)
    same = again(tools, state, params, done.made, done.cache, progress("the same calls again", number))
    reads = [call for call in done.made if call.tool.behaviour is None or call.tool.behaviour.kind not in CHANGES]
    readers = list({call.tool.name: call.tool for call in reads}.values())
    advance = progress("reads in both orders", 2 * len(reads))
    forwards = again(readers, done.session.state, params, reads, done.cache, advance)
    backwards = again(readers, done.session.state, params, reads[::-1], done.cache, advance)[::-1]
    reseeded = params.model_copy(update={"seed": params.seed + 1})
    other = again(tools, state, reseeded, done.made, None, progress("the same calls under another seed", number))
    verdicts = [is_valid(call) for call in done.made]
    agreed, echoed = seed_agreement(done.made, other)
    creates = sum(tool.behaviour is not None and tool.behaviour.kind == "create" for tool in tools)
    tally = check_invariants(tools, state, params, calls, progress("records followed through their life", calls * creates))
    failures = [call for call in done.made if call.attempt.error is CallError.SIMULATOR_FAILURE]
    cached = done.cache.hit_rate if done.cache else 0.0
    return {
        "tools": len(tools),
        "with_behaviour": sum(tool.behaviour is not None for tool in tools),
        "undrawn": done.undrawn,
        "calls": len(done.made),
        "answered": sum(call.attempt.error is None for call in done.made),
        "refused": sum(is_refusal(call) for call in done.made),
        "faults": sum(counts.faults.values()),
        "failures": len(failures),
        "failing_tools": sorted({call.tool.name for call in failures}),
        "judged": sum(verdict is not None for verdict in verdicts),
        "valid": _share([verdict for verdict in verdicts if verdict is not None]),
        "questions": counts.questions,
        "repair_rate": counts.repairs / counts.questions if counts.questions else 0.0,
        "replay_equal": _share([one.attempt == two.attempt for one, two in zip(done.made, same, strict=True)]),
        "reads": len(reads),
        "any_order_equal": _share([one.attempt == two.attempt for one, two in zip(forwards, backwards, strict=True)]),
        "hit_rate": cached,
        "seed_agreement": agreed / echoed if echoed else None,
        "seed_values": echoed,
        "invariants": {
            check: {"held": tally.held[check], "violated": tally.violated[check], "refused": tally.refused[check]}
            for check in CHECKS
        },
        "breaches": tally.broken[:_SHOWN_BREACHES],
        "latency_us": {"first": _latency(done.made), "again": _latency(same)},
    }


def write(folder: Path, name: str, params: Simulator, measures: Measures) -> None:
    """``folder``/fidelity.{json,md} and fidelity.{svg,png}."""
    write_json(folder / "fidelity.json", {"service": name, "backend": params.backend, "seed": params.seed, **measures})
    write_text(folder / "fidelity.md", markdown(name, params, measures))
    with style():
        save(figure(name, measures), folder / "fidelity")


def rows(measures: Measures) -> list[tuple[str, str]]:
    """What the report says, line by line."""
    agreement = measures["seed_agreement"]
    first, repeated = measures["latency_us"]["first"], measures["latency_us"]["again"]
    lines = [
        ("tools, of them with a behaviour", f"{measures['tools']}, {measures['with_behaviour']}"),
        ("calls: answered, refused, faults", f"{measures['answered']}, {measures['refused']}, {measures['faults']}"),
        ("simulator failures", f"{measures['failures']}{_named(measures['failing_tools'])}"),
        ("tools without drawable arguments", f"{len(measures['undrawn'])}{_named(measures['undrawn'])}"),
        ("answers valid under their schema", _percent(measures["valid"])),
        ("questions to the backend, repaired", f"{measures['questions']}, {_percent(measures['repair_rate'])}"),
        ("values from the cache, all runs", _percent(measures["hit_rate"])),
        ("equal when the calls are repeated", _percent(measures["replay_equal"])),
        ("reads equal in reverse order", _percent(measures["any_order_equal"])),
        ("two seeds agree on repeated arguments", f"{_percent(agreement)} of {measures['seed_values']}"),
    ]
    for check, counted in measures["invariants"].items():
        tried = counted["held"] + counted["violated"]
        held = f"{counted['held']} of {tried}" if tried else "nothing to check"
        lines.append((check, held + (f", {counted['refused']} refused" if counted["refused"] else "")))
    lines.append(("latency of a call, median and p99", f"{first['median']:.0f} and {first['p99']:.0f} \u00b5s"))
    lines.append(("latency of a repeated call", f"{repeated['median']:.0f} and {repeated['p99']:.0f} \u00b5s"))
    return lines


def markdown(name: str, params: Simulator, measures: Measures) -> str:
    lines = [f"# Fidelity of {name}", "", f"Backend {params.backend}, seed {params.seed}, {measures['calls']} drawn calls.", ""]
    lines += ["| measured | value |", "| --- | --- |"]
    lines += [f"| {title} | {value} |" for title, value in rows(measures)]
    if measures["breaches"]:
        lines += ["", "Broken invariants:", "", *(f"* {breach}" for breach in measures["breaches"])]
    lines += ["", "Latencies are of this machine while it measured. ![Shares](fidelity.png)"]
    return "\n".join(lines) + "\n"


def figure(name: str, measures: Measures) -> Figure:
    """The shares that should be 100 %, as bars; beside each of how many it is."""
    shares: list[tuple[str, float, int]] = [
        ("valid answers", measures["valid"], measures["judged"]),
        ("equal when repeated", measures["replay_equal"], measures["calls"]),
        ("equal in any order", measures["any_order_equal"], measures["reads"]),
    ]
    if measures["seed_agreement"] is not None:
        shares.append(("seeds agree", measures["seed_agreement"], measures["seed_values"]))
    for check, counted in measures["invariants"].items():
        tried = counted["held"] + counted["violated"]
        if tried:
            shares.append((check, counted["held"] / tried, tried))
    drawn = Figure(figsize=(7.0, 1.1 + 0.34 * len(shares)), layout="constrained")
    axis = drawn.subplots()
    axis.barh(range(len(shares)), [100 * share for _, share, _ in shares], color="#0072b2", height=0.6)
    for row, (_, share, number) in enumerate(shares):
        axis.annotate(
            f"{_percent(share)} of {number:,}", (100 * share, row), xytext=(4, 0), textcoords="offset points", va="center"
        )
    axis.set_yticks(range(len(shares)), [title for title, _, _ in shares])
    axis.set_ylim(len(shares) - 0.4, -0.6)
    axis.set_xlim(0, 130)
    axis.set_xticks(range(0, 101, 25))
    axis.tick_params(axis="y", length=0)
    axis.set_xlabel("share (%)")
    axis.set_title(f"{name}: {measures['calls']:,} calls of {measures['tools']:,} tools")
    axis.grid(axis="x")
    return drawn


def _share(flags: Sequence[bool]) -> float:
    return sum(flags) / len(flags) if flags else 1.0


def _latency(made: Sequence[Made]) -> dict[str, float]:
    """Median and 99th percentile in microseconds."""
    times = [call.nanoseconds / 1000 for call in made]
    if len(times) < 2:
        return {"median": sum(times), "p99": sum(times)}
    return {"median": median(times), "p99": quantiles(times, n=100, method="inclusive")[98]}


def _percent(share: float | None) -> str:
    return "none" if share is None else f"{100 * share:.1f} %"


def _named(names: Sequence[str]) -> str:
    return f" ({', '.join(names[:5])}{', ...' if len(names) > 5 else ''})" if names else ""
