"""Injected faults of the service: seeded, labelled, never held against the policy (method section 5).

A call's fault depends on the seed, the session, the tool, the canonical arguments and how often this same call was made before
in the session, so that it is the same in every rerun and a retry can succeed.
"""

import random

from slca.files import derive_seed
from slca.records import Json

MESSAGES = {
    "timeout": "timeout: the service did not answer, try again.",
    "rate_limit": "rate_limit: too many requests, try again.",
    "server_error": "server_error: the service failed, try again.",
}
EMPTY_PAGE = "empty_page"
"""A search that answers with an empty list although there may be records; it has no message, as in real services."""


def draw_fault(rate: float, seed: int, session: str, tool: str, arguments: Json, occurrence: int, searches: bool) -> str | None:
    """The fault that this call meets, or None. rate: share of calls; occurrence: 0 for the first such call of the session.

    searches: whether an empty page is possible.
    """
    rng = random.Random(derive_seed("fault", seed, session, tool, arguments, occurrence))
    if rng.random() >= rate:
        return None
    return rng.choice([*MESSAGES, EMPTY_PAGE] if searches else [*MESSAGES])
