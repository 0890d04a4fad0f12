"""What is served, and within which limits."""

import math
from dataclasses import asdict, dataclass, field

from slca.params import Simulator
from slca.records import State
from slca.sgls.tool import Tool

SESSION_HEADER = "X-SLCA-Session"
FAULT_HEADER = "X-SLCA-Fault"
DEFAULT_SESSION = "default"
CONTROL = "/_slca"
"""Prefix of the control paths; real services do not use it, so that theirs and ours cannot collide."""


@dataclass(frozen=True)
class Service:
    """A simulated service. state: what every session starts from. title: its name in documents and in MCP's greeting. base_path:
    what stands before the paths of its routes, such as ``/v1``; imported routes come without it."""

    tools: tuple[Tool, ...]
    params: Simulator = field(default_factory=Simulator)
    state: State = field(default_factory=dict)
    title: str = "simulated service"
    base_path: str = ""


@dataclass(frozen=True)
class Limits:
    """What a client may ask for; more is refused in bounded time and changes nothing. Raises ValueError for what is no limit."""

    body_bytes: int = 1 << 20
    """Of a request's body (413). It is counted as it arrives, so that no more than this is ever held."""
    depth: int = 64
    """Levels of nesting in a JSON body (400)."""
    target_bytes: int = 8192
    """Of path and query together (414)."""
    head_bytes: int = 65536
    """Of request line and headers together (400 and the connection closes)."""
    requests_per_second: float = 0.0
    """From one client address, on average; as many at once (429 with Retry-After). 0: no limit."""
    sessions: int = 4096
    """Open at once (429). None is dropped to make room: who forgets to delete their own must not cost another their state."""
    connections: int = 512
    """Open at once (503, in plain text: uvicorn turns these away itself)."""
    arrival_seconds: float = 10.0
    """For a request to arrive, headers and body each (408, or the connection closes)."""
    timeout_seconds: float = 0.0
    """How long an injected time-out waits before it answers 504. 0: at once, since training need not wait."""
    grace_seconds: float = 10.0
    """For requests in flight after SIGTERM or SIGINT; in whole seconds, at least one."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            least = 0 if name in ("requests_per_second", "timeout_seconds") else 1 if isinstance(value, int) else 0.001
            if not least <= value < math.inf:
                raise ValueError(f"limit {name} must be a number of at least {least}, not {value}")
