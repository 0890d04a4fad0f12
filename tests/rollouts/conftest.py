"""Policies for rollouts: scripted ones, and a random model that talks."""

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from scripted import Script, Stage, scripted

from slca.chat import ChatFormat
from slca.chat.formats.hermes import OPEN
from slca.policy.model import Policy
from slca.records import Rollout, Task
from slca.rollouts import prefixes
from slca.rollouts.engine import Request

Play = Callable[..., Any]


@pytest.fixture
def play(chat: ChatFormat, task: Task) -> Play:
    """Roll out ``task`` once for each script; the rollouts and, with them, all that the policy saw.

    rollouts, simulator: changed settings; positions: the policy's context.
    """

    def run(*scripts: Script, task: Task = task, **settings: Any) -> tuple[list[Rollout], Stage]:
        stage = Stage(chat, dict(enumerate(scripts)))
        engine = scripted(stage, **settings)
        return engine.run([Request(task, member) for member in range(len(scripts))]), stage

    return run


@pytest.fixture(scope="module")
def talkative(policy: Policy) -> Policy:
    """The tiny random model, made likely to open calls and to end turns, so that rollouts have several turns."""
    model = copy.deepcopy(policy.model)
    chat = policy.format
    model.config.max_position_embeddings = 512
    favoured = [chat.end_id, *chat.encode(OPEN)]

    def favour(module: Any, inputs: Any, output: Any) -> None:
        output.logits[..., favoured] += 3.5

    model.register_forward_hook(favour)
    return Policy(model, chat, "tiny")


@pytest.fixture(scope="session")
def always_worth_it() -> Callable[[], AbstractContextManager[None]]:
    """Meanwhile, whatever rows share is read once, however little it is."""

    @contextmanager
    def worth() -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(prefixes, "_WORTH", 1)
            prefixes.prefixes.cache_clear()
            yield
        prefixes.prefixes.cache_clear()

    return worth
