"""Tool calls beside generation: what is slow or broken is its own rollout's affair, and time has no part in any rollout."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from scripted import Stage, scripted

from slca import params as p
from slca.chat import ChatFormat
from slca.chat.formats.hermes import write_blocks
from slca.errors import DataError
from slca.policy.model import Policy
from slca.records import Call, CallError, FinishReason, Rollout, Task
from slca.rollouts.calls import threads_for
from slca.rollouts.engine import Engine, Request
from slca.sgls.backends import BACKENDS
from slca.sgls.backends import Request as Question

PATIENCE = 30.0  # seconds after which a test that would hang fails instead
ASK = {
    "name": "ask",
    "parameters": {"type": "object", "properties": {"who": {"type": "string"}}, "required": ["who"]},
    "output": {"type": "object", "properties": {"said": {"type": "string"}}, "required": ["said"]},
}
Fill = Callable[[str], Any]

SERVER: Any = {"backend": "openai", "base_url": "http://127.0.0.1:9/v1", "model": "a-test-s"}


class Service:
    """A simulator backend, named as one that is worth a thread, whose answers come when the test lets them."""

    name, model, prompt_version, remembers = "openai", "a test's", "1", False

    def __init__(self, fill: Fill) -> None:
        self.answer = fill

    def fill(self, request: Question) -> Any:
        return self.answer(str(request.arguments["who"]))


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Callable[[Fill], None]:
    return lambda fill: monkeypatch.setitem(BACKENDS, "openai", lambda *_: Service(fill))


def ask(who: str) -> str:
    return write_blocks([Call("ask", {"who": who})])


def requests(task: Task, names: Sequence[str]) -> list[Request]:
    return [Request(replace(task, task_id=name, tools=(ASK,), state={}), 0) for name in names]


def engine(chat: ChatFormat, scripts: Sequence[Sequence[str]], **settings: Any) -> Engine:
    simulator = {**SERVER, "concurrency": 4, **settings.pop("simulator", {})}
    return scripted(Stage(chat, dict(enumerate(scripts))), simulator=simulator, **settings)


def said(who: str) -> dict[str, str]:
    return {"said": f"{who} is well"}


def test_threads_are_for_backends_that_are_waited_for() -> None:
    assert threads_for(p.Simulator()) == 0
    assert threads_for(p.Simulator(**SERVER, concurrency=5)) == 5


def test_a_slow_simulator_stalls_its_own_rollout_only(chat: ChatFormat, task: Task, service: Callable[[Fill], None]) -> None:
    """The first rollout's tool answers only once the two others have ended."""
    others = threading.Semaphore(0)

    def fill(who: str) -> dict[str, str]:
        if who == "slow":
            for _ in range(2):
                assert others.acquire(timeout=PATIENCE), "the other rollouts waited for this one"
        return said(who)

    service(fill)
    scripts = [[ask("slow"), "Done."], [ask("a"), ask("b"), ask("c"), "Done."], ["Done."]]
    ended: list[int] = []

    def progress(count: int) -> None:
        ended.append(count)
        for _ in range(count):
            others.release()

    rollouts = engine(chat, scripts).run(requests(task, ["slow", "other", "third"]), progress)
    assert [rollout.finish_reason for rollout in rollouts] == [FinishReason.STOP] * 3
    assert [len(rollout.steps) for rollout in rollouts] == [2, 4, 1]
    assert rollouts[0].attempts[0].result == said("slow")
    assert sum(ended) == 3


def one_after_the_other(order: Sequence[str]) -> Fill:
    """Answers come in ``order``, though all are asked at once."""
    done = {name: threading.Event() for name in order}

    def fill(who: str) -> dict[str, str]:
        place = order.index(who)
        assert place == 0 or done[order[place - 1]].wait(PATIENCE)
        done[who].set()
        return said(who)

    return fill


@pytest.mark.parametrize("order", ["abcd", "dcba", "bdac"])
def test_the_order_in_which_tools_finish_changes_no_rollout(
    order: str, chat: ChatFormat, task: Task, service: Callable[[Fill], None]
) -> None:
    scripts = [[ask(name), ask(name), "Done."] for name in "abcd"]
    service(one_after_the_other(list(order)))
    rollouts = engine(chat, scripts).run(requests(task, "abcd"))
    service(said)
    expected = engine(chat, scripts, simulator={"concurrency": 1}).run(requests(task, "abcd"))
    assert rollouts == expected


def test_the_order_in_which_tools_finish_changes_no_sampled_token(
    talkative: Policy, task: Task, service: Callable[[Fill], None]
) -> None:
    """With a real model: when a row goes on, and beside which others, is decided by the tools."""

    def roll_out(fill: Fill, most: int) -> list[Rollout]:
        service(fill)
        rollouts = p.Rollouts(max_turns=3, max_turn_tokens=16, max_failures=9, max_rows=most)
        simulator = p.Simulator(**SERVER, concurrency=8)
        return Engine(talkative, rollouts, simulator, seed=0).run([Request(task, member) for member in range(8)])

    first, again = roll_out(said, 8), roll_out(said, 3)
    assert [rollout.completion_ids for rollout in again] == [rollout.completion_ids for rollout in first]
    assert [rollout.steps for rollout in again] == [rollout.steps for rollout in first]
    assert max(len(rollout.steps) for rollout in first) > 1


def test_a_broken_simulator_marks_its_own_rollout_only(chat: ChatFormat, task: Task, service: Callable[[Fill], None]) -> None:
    service(lambda who: {"said": 7} if who == "broken" else said(who))
    scripts = [[ask("broken"), "Done."], [ask("fine"), "Done."]]
    broken, fine = engine(chat, scripts).run(requests(task, ["broken", "fine"]))
    assert broken.simulator_failure and broken.attempts[0].error is CallError.SIMULATOR_FAILURE
    assert not fine.simulator_failure and fine.attempts[0].result == said("fine")
    assert broken.finish_reason is fine.finish_reason is FinishReason.STOP


@pytest.fixture
def no_threads_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


@pytest.mark.usefixtures("no_threads_left")
def test_an_error_that_its_user_can_mend_ends_the_run_with_its_sentence(
    chat: ChatFormat, task: Task, service: Callable[[Fill], None]
) -> None:
    """An answer that replay misses is raised from its thread, and no thread is left behind."""
    service(said)
    scripts = [[ask("a"), "Done."], ["Done."]]
    with pytest.raises(DataError, match=r"simulator\.cache is replay"):
        engine(chat, scripts, simulator={"cache": "replay"}).run(requests(task, ["a", "b"]))
