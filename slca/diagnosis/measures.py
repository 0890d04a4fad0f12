"""What the credit of recorded rollouts looks like under each method: the numbers behind ``slca diagnose``.

Contamination, zero variance and presence are those of ``slca.credit``. Methods that need to know single calls are left out where
the source does not tell. Everything is a share, 0 to 1, but for counts and gradients.
"""

from collections.abc import Sequence
from typing import Any

from slca.credit import METHODS, Settings, contamination_of, signal
from slca.diagnosis.records import Recorded
from slca.errors import DataError


def measure(recorded: Recorded, settings: Settings, methods: Sequence[str] = ()) -> dict[str, Any]:
    """``{"rollouts", "groups", "signal", "contamination": {method: {"tool", "summary"}}, "left_out": {method: reason}}``.

    methods: all in METHODS if empty. Raises DataError for a name that is not there.
    """
    unknown = [name for name in methods if name not in METHODS]
    if unknown:
        raise DataError(f"There is no method {unknown[0]!r}; the methods are {', '.join(METHODS)}.")
    shares: dict[str, dict[str, float]] = {}
    left_out: dict[str, str] = {}
    for method in methods or METHODS:
        try:
            shares[method] = contamination_of(method, recorded.groups, settings)
        except DataError as reason:
            left_out[method] = str(reason)
    return {
        "rollouts": len(recorded.ids),
        "groups": len(set(recorded.group_names)),
        "signal": signal(recorded.groups, settings),
        "contamination": shares,
        "left_out": left_out,
    }
