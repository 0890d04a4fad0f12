"""The ablation w/o SGLS: in training a service without schemas and state, behind the same prompt; nowhere else."""

from pathlib import Path

import pytest
from samples import OTHER_TOOL, STATE, TOOL

from slca import params as p
from slca.errors import ParamsError
from slca.policy.model import Policy
from slca.records import CallError, Task
from slca.rollouts.engine import Engine, Request
from slca.rollouts.schemaless import SchemalessEngine, stripped
from slca.sgls.simulator import Session
from slca.sgls.tool import load_tools

TOOLS = load_tools((TOOL, OTHER_TOOL), "test")
WITHOUT = p.Simulator(schemas=False)


def test_answers_know_neither_schema_nor_state() -> None:
    session = Session(stripped(TOOLS), {}, WITHOUT, "test")
    known, unknown = (session.call("get_weather", {"city": city}) for city in ("Łódź", "Atlantis"))
    assert known.error is unknown.error is None  # the full service finds no record of Atlantis
    assert set(known.result) == {"result"}  # and would tell of the rain
    full = Session(TOOLS, STATE, p.Simulator(), "test")
    assert full.call("get_weather", {"city": "Łódź"}).result == {"city": "Łódź", "sky": "rain"}
    assert full.call("get_weather", {"city": "Atlantis"}).error is CallError.NOT_FOUND


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("get_weather", {"city": "Oslo", "days": "many", "more": 1}, None),  # no types, no further keys refused
        ("get_weather", {"days": 2}, CallError.INVALID_ARGUMENTS),  # a required key is missing
        ("get_rain", {"city": "Oslo"}, CallError.UNKNOWN_TOOL),
    ],
)
def test_only_names_and_required_keys_are_checked(name: str, arguments: dict, error: CallError | None) -> None:
    assert Session(stripped(TOOLS), {}, WITHOUT, "test").call(name, arguments).error is error


def test_the_policy_reads_the_same_prompt(policy: Policy, task: Task) -> None:
    settings = p.Rollouts(max_turns=1, max_turn_tokens=4)
    full, without = (engine(policy, settings, WITHOUT, 0).run([Request(task, 0)])[0] for engine in (Engine, SchemalessEngine))
    assert full.prompt_ids == without.prompt_ids and full.completion_ids == without.completion_ids


def test_there_is_no_outcome_without_a_state(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("simulator: {schemas: false}\nrewards: {tool_reward: outcome}\n")
    with pytest.raises(ParamsError, match=r"simulator\.schemas = false leaves no state"):
        p.load(tmp_path / "params.yaml")
