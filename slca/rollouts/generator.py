"""The seam between the rollout engine and what generates: conversations go in as token ids, sampled turns come out.

A generator schedules by itself, so that a backend's own scheduler fits (``slca.rollouts.sampler`` for transformers; vLLM's
engine, with its prefix cache, likewise). The engine knows nothing of batches: it adds conversations, hands over what follows each
turn, and asks for finished turns until none is missing. Conversations are named by numbers that the engine chooses.

Contract: token t that a conversation samples depends on the ids before it and on (seed, t), not on what else is generated, nor
on the order or the moment in which anything was submitted (up to floating-point ties, where a backend's batches round
differently).

``rollouts.generator`` names the backend, and ``GENERATORS`` holds one for each name: a file each, imported when it is chosen.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Protocol

from slca.errors import MissingDependency
from slca.params import Rollouts
from slca.policy.model import Policy


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


def new_generator(policy: Policy, rollouts: Rollouts, temperature: float, rows: int) -> Generator:
    """The generator that ``rollouts.generator`` names. temperature 0 is greedy. rows: conversations at once, on transformers;
    vLLM takes as many as ``rollouts.max_rows``, whoever asks.

    Raises MissingDependency where its library or server is not there.
    """
    return GENERATORS[rollouts.generator](policy, rollouts, temperature, rows)


def context(policy: Policy, rollouts: Rollouts) -> int:
    """Tokens that a conversation may have, prompt included."""
    return min(policy.max_positions, rollouts.max_context or policy.max_positions)


def needs_vllm() -> None:
    """Raises MissingDependency where vLLM is not installed."""
    if find_spec("vllm") is None:
        raise MissingDependency(
            "rollouts.generator vllm needs the package vllm, which is not installed: run the stage in an environment that has "
            "it. With a GPU: pip install 'slca[vllm]'; on a CPU: make vllm, then .venv-vllm/bin/python -m slca."
        )


def _transformers(policy: Policy, rollouts: Rollouts, temperature: float, rows: int) -> Generator:
    from slca.rollouts.sampler import TransformersGenerator

    return TransformersGenerator(policy.model, policy.format.stop_ids, temperature, rows)


def _vllm(policy: Policy, rollouts: Rollouts, temperature: float, rows: int) -> Generator:
    needs_vllm()
    from slca.rollouts.vllm_generator import VllmGenerator, engine_of

    return VllmGenerator(engine_of(policy, rollouts), policy.format.stop_ids, temperature)


def _vllm_server(policy: Policy, rollouts: Rollouts, temperature: float, rows: int) -> Generator:
    from slca.rollouts.vllm_server import VllmServerGenerator

    model = "" if policy.folder is None else str(policy.folder)
    return VllmServerGenerator(
        rollouts.vllm_url, model, context(policy, rollouts), policy.format.stop_ids, temperature, rollouts.max_rows
    )


GENERATORS: dict[str, Callable[[Policy, Rollouts, float, int], Generator]] = {
    "transformers": _transformers,
    "vllm": _vllm,
    "vllm_server": _vllm_server,
}
