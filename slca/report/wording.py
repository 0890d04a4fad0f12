"""How the reports write numbers, names and tables; nothing here knows where a number comes from."""

from collections.abc import Sequence
from typing import Any

NONE = "-"
"""What was not measured."""

LABELS = {
    "warmstart": "warm start",
    "test": "test",
    "unseen_tools": "unseen tools",
    "tool": "TOOL tokens",
    "summary": "SUMMARY tokens",
    "gold": "gold replay",
    "do_nothing": "doing nothing",
    "random_call": "a random valid call",
}


def label(name: str) -> str:
    return LABELS.get(name, name)


def cell(entry: dict[str, Any] | None, decimals: int, scale: float = 1.0) -> str:
    """``mean ± sd [low, high]``; what is not known is left out. scale: 100 for percent."""
    if entry is None:
        return NONE
    text = f"{scale * entry['mean']:.{decimals}f}"
    if entry["sd"] is not None:
        text += f" ± {scale * entry['sd']:.{decimals}f}"
    if entry["low"] is not None:
        end = "no upper end" if entry["high"] is None else f"{scale * entry['high']:.{decimals}f}"
        text += f" [{scale * entry['low']:.{decimals}f}, {end}]"
    return text


def signed(entry: dict[str, Any], decimals: int) -> str:
    """``difference [low, high]``, all with their signs."""
    return f"{entry['difference']:+.{decimals}f} [{entry['low']:+.{decimals}f}, {entry['high']:+.{decimals}f}]"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: first column to the left, the others to the right."""
    rule = [":--", *("--:" for _ in headings[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in (headings, rule, *rows))


def count(things: Sequence[Any] | int, name: str) -> str:
    number = things if isinstance(things, int) else len(things)
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def share(value: float | None, decimals: int = 3) -> str:
    return NONE if value is None else f"{value:.{decimals}f}"


def percent(value: float | None) -> str:
    return NONE if value is None else f"{100 * value:.1f} %"


def capital(text: str) -> str:
    return text[0].upper() + text[1:]


def joined(names: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
