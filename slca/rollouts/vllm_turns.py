"""Conversations on vLLM, which knows single requests only: each turn is one, and its prompt is all ids so far.

vLLM's prefix cache holds what is asked again, within a group and from turn to turn, so a turn costs its new tokens. Prompts and
answers are token ids: nothing is tokenised, and vLLM's own end-of-text rules are off, since the policy's format says what ends a
turn. A model's ``generation_config.json`` has no say either: every sampling setting is given.

A turn's seed is derived from the conversation's seed and the number of the turn; vLLM draws a seeded request's tokens from a
generator of its own, whatever else is in the batch. The numbers are other ones than those of ``slca.rollouts.sampler``: sampled
rollouts of the two backends have the same distribution, and only greedy ones are the same.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slca.errors import DataError
from slca.files import derive_seed
from slca.rollouts.generator import Turn


@dataclass
class _Conversation:
    ids: list[int]
    seed: int
    limit: int
    turns: int = 0


class VllmTurns(ABC):
    """What both generators on vLLM share: they differ in how a request is sent and how its answer arrives."""

    def __init__(self, stop_ids: frozenset[int], temperature: float) -> None:
        self._stop_ids = stop_ids
        self._temperature = temperature
        self._conversations: dict[int, _Conversation] = {}

    @abstractmethod
    def step(self) -> list[tuple[int, Turn]]:
        """As in ``slca.rollouts.generator.Generator``."""

    @abstractmethod
    def _ask(self, key: int, ids: list[int], sampling: dict[str, Any]) -> None:
        """Send one request. sampling: vLLM's names, the same for its engine and its server."""

    def add(self, key: int, prompt: Sequence[int], limit: int, seed: int) -> None:
        self._conversations[key] = _Conversation(list(prompt), seed, limit)
        self._ask_next(key)

    def go_on(self, key: int, ids: Sequence[int], limit: int) -> None:
        conversation = self._conversations[key]
        conversation.ids += ids
        conversation.limit = limit
        self._ask_next(key)

    def drop(self, key: int) -> None:
        del self._conversations[key]

    def _ask_next(self, key: int) -> None:
        conversation = self._conversations[key]
        sampling = {
            "temperature": self._temperature,
            "top_p": 1.0,
            "top_k": 0,
            "min_p": 0.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "repetition_penalty": 1.0,
            "seed": derive_seed("vllm turn", conversation.seed, conversation.turns),
            "max_tokens": conversation.limit,
            "stop_token_ids": sorted(self._stop_ids),
            "ignore_eos": True,
            "logprobs": 0,
        }
        self._ask(key, conversation.ids, sampling)

    def _answered(self, key: int, ids: Sequence[int], logprobs: Sequence[float]) -> Turn:
        """The turn that a request brought. Raises DataError for one that was cut short."""
        conversation = self._conversations[key]
        ended = bool(ids) and ids[-1] in self._stop_ids
        if len(ids) != len(logprobs) or not (ended or len(ids) == conversation.limit):
            raise DataError(
                f"vLLM returned {len(ids)} tokens and {len(logprobs)} log-probs for a turn that may have {conversation.limit} "
                "and did not end; it has dropped the request, and its log says why."
            )
        conversation.ids += ids
        conversation.turns += 1
        return Turn(list(ids), list(logprobs), ended)
