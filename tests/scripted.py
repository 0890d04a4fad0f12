"""A policy that says what a script holds, so that every token's origin is known, in the real engine with the real simulator."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from slca import params as p
from slca.chat import ChatFormat
from slca.chat.formats.hermes import write_blocks
from slca.policy.model import Policy
from slca.records import Call
from slca.rollouts.engine import Engine
from slca.rollouts.generator import Turn

GOOD_CALL = Call("get_weather", {"city": "Łódź"})
GOOD = write_blocks([GOOD_CALL])
REPLY = "It is rain in Łódź."


@dataclass(frozen=True)
class Cut:
    """A turn that does not end by itself."""

    text: str


Script = Sequence[str | Cut]


class Stage:
    """A generator that plays scripts, under the engine's limits, and records all that the policy saw."""

    def __init__(self, chat: ChatFormat, scripts: Mapping[int, Script], encode: Callable[[str], list[int]] | None = None) -> None:
        self.chat = chat
        self.encode = encode or chat.encode
        self.scripts = {key: list(script) for key, script in scripts.items()}
        self.seen: dict[int, list[int]] = {}
        self.limits: list[int] = []
        self.seeds: dict[int, int] = {}
        self.wanted: list[tuple[int, int]] = []
        self.dropped: list[int] = []

    def add(self, key: int, prompt: Sequence[int], limit: int, seed: int) -> None:
        self.seen[key] = list(prompt)
        self.seeds[key] = seed
        self.wanted.append((key, limit))

    def go_on(self, key: int, ids: Sequence[int], limit: int) -> None:
        self.seen[key] += ids
        self.wanted.append((key, limit))

    def drop(self, key: int) -> None:
        self.dropped.append(key)

    def step(self) -> list[tuple[int, Turn]]:
        """The turns that are wanted, the last one first."""
        wanted, self.wanted = self.wanted[::-1], []
        return [(key, self.turn(key, limit)) for key, limit in wanted]

    def turn(self, key: int, limit: int) -> Turn:
        assert limit > 0
        self.limits.append(limit)
        said = self.scripts[key].pop(0)
        ids = self.encode(said.text) if isinstance(said, Cut) else [*self.encode(said), self.chat.end_id]
        ended = not isinstance(said, Cut) and len(ids) <= limit
        ids = ids[:limit]
        self.seen[key] += ids
        return Turn(ids, [-(1 + place) / 8 for place in range(len(ids))], ended)


def scripted(stage: Stage, positions: int = 4096, rollouts: dict[str, Any] | None = None, **settings: Any) -> Engine:
    """An engine whose policy says what ``stage`` plays."""

    class Scripted(Engine):
        def generator(self) -> Stage:
            return stage

    policy = Policy(SimpleNamespace(config=SimpleNamespace(max_position_embeddings=positions)), stage.chat, "scripted@7")
    simulator = p.Simulator(**settings.pop("simulator", None) or {})
    return Scripted(policy, p.Rollouts(**{"max_turn_tokens": 400, **(rollouts or {})}), simulator, seed=3, **settings)
