"""How every figure of the project looks and is written.

Equal numbers give equal bytes: no pyplot and no user's matplotlibrc, ids in the SVG from a fixed salt, no date or program name
in either format, letters drawn as outlines of matplotlib's own font. Colours are Okabe and Ito's, told apart in all common
kinds of colour blindness; markers differ as well. The background is white, so that a figure reads the same on a dark page.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from slca.files import replacing

# Colour and marker of every method of method section 4, so that it looks the same in all reports.
_LOOK = {
    "warmstart": ("#5f5f5f", "D"),
    "grpo": ("#d55e00", "s"),
    "slca": ("#0072b2", "o"),
    "toolpo": ("#009e73", "^"),
    "rltr": ("#cc79a7", "v"),
    "gdpo": ("#e69f00", "P"),
    "routed_joint": ("#56b4e9", "X"),
    "slca_call": ("#000000", "*"),
}

_OTHER = ("#8c8c8c", "h")

_STYLE = {
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "axes.facecolor": "white",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#444444",
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.axisbelow": True,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 9,
    "xtick.color": "#444444",
    "ytick.color": "#222222",
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.7,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "svg.hashsalt": "slca",
    "svg.fonttype": "path",
    "path.simplify": False,
}


@contextmanager
def style() -> Iterator[None]:
    """The settings under which figures are drawn."""
    with matplotlib.rc_context(matplotlib.rcParamsDefault):
        matplotlib.rcParams.update(_STYLE)
        yield


def save(figure: Figure, path: Path) -> None:
    """Write ``path``.svg and ``path``.png without anything that differs between two runs."""
    for suffix, metadata in ((".svg", {"Date": None, "Creator": None}), (".png", {"Software": None})):
        with replacing(path.with_suffix(suffix)) as temporary:
            figure.savefig(temporary, format=suffix[1:], dpi=160, metadata=metadata)


def colour(method: str) -> str:
    return _LOOK.get(method, _OTHER)[0]


def marker(method: str) -> str:
    return _LOOK.get(method, _OTHER)[1]
