"""Answers of no model. The random call: valid for its tool, the same for the same item and seed, of every tool in the long run.
Its like on our own tasks, and gold and doing nothing: executed by the real simulator, scored by HierR.
"""

from dataclasses import replace

import pytest
from credit_cases import a_reward
from samples import OTHER_TOOL, TOOL

from slca import params as p
from slca.benchmarks import in_domain, references
from slca.benchmarks.references import random_call
from slca.records import Task, TaskKind
from slca.report.benchmarks import REFERENCES
from slca.sgls import validation
from slca.sgls.tool import load_tools

TOOLS = load_tools([TOOL, OTHER_TOOL], "test")


def test_a_random_call_is_valid_and_repeatable():
    by_name = {tool.name: tool for tool in TOOLS}
    calls = [random_call(TOOLS, f"item-{number}", 0) for number in range(50)]
    for call in calls:
        assert validation.fault(validation.validator(by_name[call.name].parameters), call.arguments, "arguments") is None
    assert {call.name for call in calls} == set(by_name)
    assert calls == [random_call(TOOLS, f"item-{number}", 0) for number in range(50)]
    assert calls != [random_call(TOOLS, f"item-{number}", 1) for number in range(50)]


def test_no_tool_no_call():
    assert random_call((), "item", 0) is None


@pytest.fixture
def tasks(task: Task) -> list[Task]:
    """One task that needs a look-up, which leaves the state as it is, and one that needs nothing."""
    end = references.rollout_of("do_nothing", task, 0, p.Simulator()).end_state
    nothing = replace(task, task_id="test-1", kind=TaskKind.ABSTAIN, gold=(), facts=(), reply="None of my tools can do that.")
    return [replace(one, end_state=end) for one in (task, nothing)]


def test_gold_solves_all_and_doing_nothing_what_needs_nothing(tasks):
    found = references.measure(tasks, p.Params())
    assert tuple(found) == references.NAMES == REFERENCES
    gold, nothing = found["gold"], found["do_nothing"]
    assert [gold[name] for name in ("success", "outcome_success", "process", "summary")] == [1.0] * 4
    assert (gold["simulated_cost"], gold["calls_per_solved"], gold["redundancy"]) == (0.5, 0.5, 0.0)  # one call for two tasks
    assert [nothing[name] for name in ("success_single", "success_abstain", "outcome_success")] == [0.0, 1.0, 0.5]
    assert (nothing["simulated_cost"], nothing["calls_per_solved"], nothing["summary"]) == (0.0, 0.0, 0.0)


def test_a_random_call_is_executed_and_is_wrong_where_no_call_is_right(tasks):
    figures = references.measure(tasks, p.Params())["random_call"]
    assert (figures["simulated_cost"], figures["success_abstain"], figures["masked"]) == (1.0, 0.0, 0)
    made = [references.rollout_of("random_call", tasks[0], seed, p.Simulator()) for seed in range(30)]
    assert {rollout.attempts[0].name for rollout in made} == {"get_weather", "noop"}
    assert all(attempt.error is None for rollout in made for attempt in rollout.attempts)  # of a record that is there
    assert not any(rollout.reply for rollout in made)


def test_references_meet_no_faults_and_have_no_token_figures(tasks):
    faulty = p.changed(p.Params(), {"simulator": {"fault_rate": 1.0}}, "test")
    found = references.measure(tasks, faulty)
    assert found == references.measure(tasks, p.Params())
    assert not any("token" in name for figures in found.values() for name in figures)


def test_cost_per_solved_counts_all_calls_and_is_unknown_where_nothing_is_solved():
    rows = [
        a_reward("a/0", calls=3, sampled_tokens=50, success=True),
        a_reward("b/0", calls=1, sampled_tokens=30, success=False),
        a_reward(
            "c/0", calls=9, sampled_tokens=99, success=True, masked="simulator failure", tool_score=None, summary_score=None
        ),
    ]
    figures = in_domain.metrics(rows)
    assert (figures["calls_per_solved"], figures["tokens_per_solved"], figures["masked"]) == (4.0, 80.0, 1)
    assert in_domain.metrics(rows[1:])["calls_per_solved"] is None
