"""Injected faults of the service: seeded, labelled, never held against the policy (method section 5).

A call's fault depends on the seed, the session, the tool, the canonical arguments and how often this same call was made before
in the session, so that it is the same in every rerun, whatever is called in between, and a retry can succeed.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from slca.files import derive_seed
from slca.params import Simulator
from slca.records import Json

TIMEOUT = "timeout"
RATE_LIMIT = "rate_limit"
SERVER_ERROR = "server_error"
EMPTY_PAGE = "empty_page"
"""A search that answers with an empty list although there may be records; it has no message, as in real services."""
SLOW = "slow"
"""The call is executed and its answer valid, but a server holds it back for ``Fault.delay`` seconds."""

_SERVER_ERRORS = (500, 502, 503)
_LONGEST_WAIT = 10  # seconds, of retry-after and of a slow answer: no client should have to wait longer in a test


@dataclass(frozen=True)
class Fault:
    """One injected fault. kind: a name in ``slca.params.Simulator.fault_kinds``; status: what a server answers with;
    retry_after: whole seconds, of a rate limit; delay: seconds, of a slow answer (a server waits, a session never does)."""

    kind: str
    status: int = 200
    retry_after: int = 0
    delay: float = 0.0

    @property
    def message(self) -> str:
        """What the policy reads; empty where the answer looks like any other."""
        match self.kind:
            case "timeout":
                return "timeout: the service did not answer, try again."
            case "rate_limit":
                return f"rate_limit: too many requests, retry after {self.retry_after} s."
            case "server_error":
                return f"server_error: the service failed with status {self.status}, try again."
            case _:
                return ""


def rate_of(params: Simulator, tool: str) -> float:
    """Share of calls to ``tool`` that meet a fault. ``fault_rates`` may name tools of other tasks."""
    return params.fault_rates.get(tool, params.fault_rate)


def draw_fault(
    rate: float, kinds: Sequence[str], seed: int, session: str, tool: str, arguments: Json, occurrence: int, searches: bool
) -> Fault | None:
    """The fault that this call meets, or None. rate: share of calls; occurrence: 0 for the first such call of the session.

    kinds: those that may occur. searches: whether an empty page is possible.
    """
    rng = random.Random(derive_seed("fault", seed, session, tool, arguments, occurrence))
    possible = [kind for kind in kinds if searches or kind != EMPTY_PAGE]
    if rng.random() >= rate or not possible:
        return None
    kind = rng.choice(possible)
    match kind:
        case "timeout":
            return Fault(kind, status=504)
        case "rate_limit":
            return Fault(kind, status=429, retry_after=rng.randint(1, _LONGEST_WAIT))
        case "server_error":
            return Fault(kind, status=rng.choice(_SERVER_ERRORS))
        case "slow":
            return Fault(kind, delay=round(rng.uniform(0.5, _LONGEST_WAIT), 2))
        case _:
            return Fault(kind)
