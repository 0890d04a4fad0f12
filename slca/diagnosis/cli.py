"""``slca diagnose`` and ``slca inspect``: what the arguments mean; the work is done in this package's other files."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from slca import params as p
from slca.credit import Settings
from slca.diagnosis.inspect import Decode, write_page
from slca.diagnosis.measures import measure
from slca.diagnosis.records import Recorded, read_recorded
from slca.diagnosis.report import contamination_rows, signal_rows, write


def diagnose(
    path: Path, rewards: Path | None, methods: Sequence[str], model: Path | None, limit: int, output: Path | None, params: Path
) -> None:
    """Print the measures of the rollouts at ``path``; with ``output``, write them there too."""
    settings = settings_of(params)
    recorded = read_recorded(path, rewards)
    measures = measure(recorded, settings, methods)
    if model is not None:
        measures["gradients"] = _gradients(model, recorded, settings, list(measures["contamination"]), limit)
    console = Console()
    console.print(f"{measures['rollouts']} rollouts in {measures['groups']} groups")
    console.print(_table(*contamination_rows(measures)))
    console.print(_table(("share of", "value"), signal_rows(measures)))
    for method, reason in measures["left_out"].items():
        console.print(f"{method} is left out: {reason}", highlight=False)
    if output is not None:
        write(output, str(path), measures)
        console.print(f"written to {output}/diagnosis.md", highlight=False)


def inspect(path: Path, output: Path, rewards: Path | None, model: Path, limit: int, params: Path) -> None:
    """Write the page of the rollouts at ``path``."""
    recorded = first_groups(read_recorded(path, rewards), limit)
    write_page(output, str(path), recorded, settings_of(params), _decoder(model) if recorded.rollouts else None)
    Console().print(f"{len(recorded.ids)} rollouts written to {output}; open it in a browser.", highlight=False)


def _decoder(folder: Path) -> Decode | None:
    """The texts of token ids by the tokenizer in ``folder``; None where there is none."""
    if not (folder / "tokenizer.json").exists():
        return None
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return lambda ids: str(tokenizer.decode(list(ids), skip_special_tokens=False))


def settings_of(params: Path) -> Settings:
    """Credit settings of a parameter file; the defaults where there is none."""
    return Settings.from_params(p.load(params).train if params.exists() else p.Train())


def _gradients(folder: Path, recorded: Recorded, settings: Settings, methods: list[str], limit: int) -> dict[str, Any]:
    from slca.bars import Bars
    from slca.diagnosis.gradients import gradients
    from slca.policy.model import load_policy, prepare_torch

    prepare_torch(1)
    policy = load_policy(folder)
    part = first_groups(recorded, limit)
    found = {}
    with Bars() as bars:
        advance = bars.add("gradients", len(methods))
        for method in methods:
            found[method] = gradients(policy.model, part, settings, method)
            advance(1)
    return found


def first_groups(recorded: Recorded, limit: int) -> Recorded:
    """The rollouts of the first groups that hold at least ``limit`` rollouts together, or all."""
    names = list(dict.fromkeys(recorded.group_names))
    kept: set[str] = set()
    for name in names:
        kept.add(name)
        if sum(group in kept for group in recorded.group_names) >= limit:
            break
    rows = [row for row, name in enumerate(recorded.group_names) if name in kept]
    if len(rows) == len(recorded.ids):
        return recorded
    lists = ("ids", "group_names", "labels", "call_of", "tokens", "details")
    picked: dict[str, Any] = {name: tuple(getattr(recorded, name)[row] for row in rows) for name in lists}
    rollouts = tuple(recorded.rollouts[row] for row in rows) if recorded.rollouts else ()
    return replace(recorded, **picked, rollouts=rollouts, groups=recorded.groups.take(rows))


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(*headings)
    for row in rows:
        table.add_row(*row)
    return table
