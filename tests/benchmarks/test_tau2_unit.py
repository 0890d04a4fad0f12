"""tau2's harness without tau2: pass^k, the guard, the rules of scripted parties, settings."""

from pathlib import Path

import pytest

from slca import params as p
from slca.benchmarks.tau2 import harness, link, parties, worker
from slca.benchmarks.tau2.protocol import REFUSED, Answer, Case, Question, guarded
from slca.errors import MissingDependency, ParamsError
from slca.records import Call

CASE = Case("mock", "one", "I want a task.", (("assistant", Call("a", {})), ("user", Call("b", {}))), ("42", "yes"), ())


def test_pass_k_by_hand():
    # Four trials. Task 1 succeeds in 3: pass^1 = 3/4, pass^2 = 3/6, pass^3 = 1/4, pass^4 = 0. Task 2 in all: 1, 1, 1, 1.
    tasks = [[1.0, 0.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]
    assert harness.passes_of(tasks, 4) == (0.875, 0.75, 0.625, 0.5)
    # A trial without a score takes its task out, rather than counting as 0; half a reward is no success.
    assert harness.passes_of([*tasks, [1.0, None, 1.0, 1.0], [0.5, 0.0, 0.0, 0.0]], 4) == pytest.approx(
        (1.75 / 3, 0.5, 1.25 / 3, 1 / 3)
    )
    assert harness.passes_of([[None]], 1) == ()


@pytest.mark.parametrize(
    ("call", "passes"),
    [
        pytest.param(Call("get_user", {"user_id": "Łódź 北京"}), True, id="non-ASCII argument"),
        pytest.param(Call("__import__('os').system('x')", {}), False, id="code as name"),
        pytest.param(Call("x" * 65, {}), False, id="long name"),
        pytest.param(Call("łódź", {}), False, id="non-ASCII name"),
        pytest.param(Call("get_user", ["a"]), False, id="arguments no object"),
        pytest.param(Call("get_user", {1: 2}), False, id="key no text"),
        pytest.param(Call("get_user", {"a": "x" * 60_000}), False, id="huge"),
        pytest.param(Call("get_user", {"a": list(range(5000))}), False, id="many"),
        pytest.param(Call("calculate", {"expression": "(2 + 3) * 4 / 1.5"}), True, id="arithmetic"),
        pytest.param(Call("calculate", {"expression": "2 * 3 ** 2 * 2"}), True, id="small power"),
        pytest.param(Call("calculate", {"expression": "9**9**9**9"}), False, id="tower"),
        pytest.param(Call("calculate", {"expression": "9 ** 999"}), False, id="large power"),
        pytest.param(Call("calculate", {"expression": "9 ** (9 * 9 * 9 * 9)"}), False, id="power of a bracket"),
        pytest.param(Call("calculate", {"expression": "(9 ** 99) ** 99"}), False, id="power of a power"),
        pytest.param(Call("calculate", {"expression": "9 ** 9 ** 9"}), False, id="tower of small powers"),
        pytest.param(Call("calculate", {"expression": "(" * 500}), False, id="long expression"),
        pytest.param(Call("calculate", {"expression": ["9**9**9"]}), True, id="no text: tau2 refuses it"),
    ],
)
def test_what_may_reach_tau2(call, passes):
    answer = guarded(Answer("beside a call", (call,)))
    assert answer == Answer(None, (call if passes else Call(REFUSED, {}),))


def test_deep_arguments_are_refused_without_recursion():
    value: object = 1
    for _ in range(100_000):
        value = [value]
    assert guarded(Answer(calls=(Call("get_user", {"a": value}),))).calls == (Call(REFUSED, {}),)


@pytest.mark.parametrize(("answer", "end"), [(Answer(" \n"), "empty"), (Answer(calls=(CASE.gold[0][1],) * 101), "more than 100")])
def test_a_message_that_tau2_would_not_take_ends_the_simulation(answer, end):
    assert guarded(answer).end.startswith(end)


def said_by(party, messages):
    party.ask(7, CASE, 0, Question(messages, ()))
    assert party.working
    ((key, answer),) = party.answers()
    assert key == 7
    return answer.content


def test_the_scripted_user_states_its_case_goes_on_three_times_and_stops():
    party = parties.scripted_user()
    messages = [{"role": "system", "content": ""}, {"role": "user", "content": "Hi!"}]
    said = []
    while not said or said[-1] != parties.STOP:
        said.append(said_by(party, messages))
        messages += [{"role": "assistant", "content": said[-1]}, {"role": "user", "content": "Hm."}]
    assert said == [CASE.opening, *[parties.GO_ON] * 3, parties.STOP]


def test_a_gold_replay_takes_turns():
    gold, question = parties.Gold(), Question((), ())
    assert gold.user(0, CASE, question) == Answer(CASE.opening)  # the first action is the agent's
    assert gold.agent(0, CASE, question).calls == (Call("a", {}),)
    assert gold.agent(0, CASE, question).calls == ()  # the next is the user's
    assert gold.user(0, CASE, question).calls == (Call("b", {}),)
    assert gold.user(0, CASE, question) == Answer(CASE.opening)  # what is to be communicated was not said yet
    assert gold.agent(0, CASE, question) == Answer("42; yes")
    assert gold.user(0, CASE, question) == Answer(parties.STOP)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"tau2_user": "openai", "tau2_user_model": "m"}, "needs tau2_user_url"),
        ({"tau2_user": "local"}, "needs tau2_user_model"),
        ({"tau2_domains": ["mock", "mock"]}, "each domain once"),
        ({"tau2_domains": ["banking"]}, "tau2_domains"),
    ],
)
def test_parameters_that_cannot_be_are_refused(fields, fault):
    with pytest.raises(ParamsError, match=fault):
        p.changed(p.Params(), {"evaluate": fields}, "test")


def test_settings_are_the_parameters():
    params = p.changed(
        p.Params(), {"evaluate": {"tau2_domains": ["retail"], "tau2_trials": 3, "tau2_limit": 5, "seed": 2}}, "test"
    )
    settings = harness.Settings.of(params)
    assert (settings.domains, settings.trials, settings.limit, settings.seed) == (("retail",), 3, 5, 2)
    assert settings.mark() == harness.Settings.of(p.changed(params, {"evaluate": {"tau2_trials": 1}}, "test")).mark()
    assert settings.mark() != harness.Settings.of(p.changed(params, {"evaluate": {"tau2_max_steps": 9}}, "test")).mark()


def test_a_missing_environment_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.delenv(link.INTERPRETER.variable, raising=False)
    with pytest.raises(MissingDependency, match=r"\.venv-tau2/bin/python.*make setup"):
        link.INTERPRETER.python(tmp_path)
    monkeypatch.setenv(link.INTERPRETER.variable, str(tmp_path / "nowhere"))
    with pytest.raises(MissingDependency, match=r"SLCA_TAU2_PYTHON names .*nowhere.*make setup"):
        link.INTERPRETER.python(tmp_path)


def test_the_reported_package_is_the_pinned_one():
    pins = (Path(worker.__file__).parent / "requirements.txt").read_text().splitlines()
    assert harness.PACKAGE.replace(" ", "==") in pins
