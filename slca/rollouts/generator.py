"""The seam between the rollout engine and what generates: conversations go in as token ids, sampled turns come out.

A generator schedules by itself, so that a backend's own scheduler fits (``slca.rollouts.sampler`` for transformers; vLLM's
engine, with its prefix cache, likewise). The engine knows nothing of batches: it adds conversations, hands over what follows each
turn, and asks for finished turns until none is missing. Conversations are named by numbers that the engine chooses.

Contract: token t that a conversation samples depends on the ids before it and on (seed, t), not on what else is generated, nor
on the order or the moment in which anything was submitted (up to floating-point ties, where a backend's batches round
differently).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass
class Turn:
    """One sampled assistant turn. ended: it closed with an end-of-turn token, which is in ``ids``; else it met its limit.

    logprobs: natural logs, float32, under the distribution that was sampled from, one per id.
    """

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    ended: bool = False


class Generator(Protocol):
    """What a backend offers the engine."""

    def add(self, key: int, prompt: Sequence[int], limit: int, seed: int) -> None:
        """A new conversation, of which a turn of at most ``limit`` tokens is wanted. It waits for its place in order."""

    def go_on(self, key: int, ids: Sequence[int], limit: int) -> None:
        """Another turn of a conversation whose turn has ended, behind ``ids``, which were not sampled (at least one)."""

    def drop(self, key: int) -> None:
        """The conversation has ended, and its place is free."""

    def step(self) -> list[tuple[int, Turn]]:
        """Work for a moment; the turns that ended in it. No turn may have ended, even though some are wanted."""
