"""Numbers as results.json holds them: six decimals, finite or absent."""

import math
from typing import Any

Results = dict[str, Any]


def rounded(value: float) -> float:
    """Six decimals; no negative zero."""
    return round(float(value), 6) + 0.0


def optional(value: float | None) -> float | None:
    """``rounded``; None for what is not finite."""
    return None if value is None or not math.isfinite(value) else rounded(value)


def number(value: Any) -> float | None:
    """A finite number, else None."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) else None
