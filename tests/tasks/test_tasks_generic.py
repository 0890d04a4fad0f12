"""Questions made from a schema alone."""

import random
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slca.params import Simulator
from slca.records import Call, TaskKind
from slca.sgls.catalog_loader import MCP_LISTS
from slca.sgls.stage import load_imports
from slca.sgls.tool import Tool
from slca.tasks import generic
from slca.tasks.generate import generate, make_task
from slca.tasks.gold import gold_steps, run_plan
from slca.tasks.phrasing import load_book
from slca.tasks.world import TRAIN_IMPORTED, make_worlds


def tool(properties: dict[str, Any], required: list[str], name: str = "own_tool", **more: Any) -> Tool:
    return Tool(name=name, parameters={"type": "object", "properties": properties, "required": required}, domain="own", **more)


def test_the_question_states_the_name_and_every_value_as_json() -> None:
    given_values = {"repo_path": "a/b", "max_count": 5, "all": True}
    assert (
        generic.question(tool({}, [], "git_log"), given_values) == 'Use git_log with repo_path "a/b", max_count 5 and all true.'
    )
    assert generic.question(tool({}, [], "git_log"), {"city": "東京"}) == 'Use git_log with city "東京".'
    assert generic.question(tool({}, [], "git_log"), {}) == "Use git_log."


def test_the_report_states_up_to_two_scalars() -> None:
    result = {"ok": True, "inner": {"branchName": "main", "n": 2.5, "more": "x1"}, "note": "a\nb"}
    assert generic.report(result) == ("The branch name is main and the n is 2.5.", ("main", "2.5"))
    assert generic.report(["ab"]) == ("The result is ab.", ("ab",))
    assert generic.report({"ok": False, "none": None, "list": []}) is None


SCHEMAS: dict[str, Any] = {
    "count": {"type": "integer", "minimum": 1, "maximum": 9},
    "size": {"type": "number", "minimum": 100},
    "flag": {"type": "boolean"},
    "mode": {"type": "string", "enum": ["fast", "slow"]},
    "start_date": {"type": "string", "format": "date"},
    "at": {"type": "string", "format": "date-time"},
    "file_path": {"type": "string"},
    "timezone": {"type": "string"},
    "labels": {"type": "array", "items": {"type": "string"}, "minItems": 1},
}


@given(st.integers(0, 10**6), st.sampled_from(["train", "test"]))
@settings(max_examples=50, deadline=None)
def test_drawn_arguments_validate(seed: int, part: Any) -> None:
    subject = tool(SCHEMAS, list(SCHEMAS)[:6])
    values = generic.arguments(subject, random.Random(seed), part)
    assert set(subject.required) <= set(values) and len(values) <= 7
    jsonschema.validate(values, subject.parameters)


@pytest.mark.parametrize(
    "unusable",
    [
        tool({"either": {"oneOf": [{"type": "string"}, {"type": "integer"}]}}, ["either"]),
        tool({"inner": {"type": "object"}}, ["inner"]),
        tool({"short": {"type": "string", "maxLength": 1}}, ["short"]),
        tool({"n": {"type": "integer"}}, []),
        tool({f"argument_{n}": {"type": "string", "description": "d" * 40} for n in range(20)}, ["argument_0"]),
        tool({"city": {"type": "string"}}, ["city"], output={"type": "null"}),
    ],
    ids=["oneOf", "object", "length", "nothing required", "long", "nothing to tell"],
)
def test_tools_that_no_question_can_be_made_of_are_left_out(unusable: Tool) -> None:
    assert not generic.is_usable(unusable, [unusable], Simulator())


CODE = {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{2}$"}

REFERENCE = {"type": "object", "properties": {"code": {"$ref": "#/$defs/code"}}, "required": ["code"]}


@pytest.mark.parametrize(
    "usable",
    [
        tool({"code": CODE}, ["code"]),
        tool({"page": {"type": "string", "format": "uri"}}, ["page"]),
        Tool(
            name="own_tool",
            parameters={
                "type": "object",
                "properties": {"code": {"$ref": "#/$defs/code"}},
                "required": ["code"],
                "$defs": {"code": CODE},
            },
        ),
    ],
    ids=["pattern", "format", "reference"],
)
def test_patterns_formats_and_references_are_drawn_for(usable: Tool) -> None:
    values = generic.arguments(usable, random.Random(1), "train")
    jsonschema.validate(values, usable.parameters)
    assert values and generic.is_usable(usable, [usable], Simulator())


PETS = load_imports(Path("tests/sgls/documents/petstore.yaml"))


@given(st.integers(0, 10**6), st.sampled_from(PETS))
@settings(max_examples=60, deadline=None)
def test_tools_that_keep_records_are_asked_about_records_that_are_there(seed: int, subject: Tool) -> None:
    assert subject.behaviour is not None
    try:
        given_values, state = generic.request(subject, PETS, random.Random(seed), "train")
    except generic.Undrawable:
        assert subject.name in ("listPets", "createPet", "createVisit")  # at times nothing is given; a body that cannot be drawn
        return
    ((attempt,),), _ = run_plan([subject], state, ((Call(subject.name, given_values),),), Simulator())
    assert attempt.error is None
    assert set(state) <= {"pet", "visit"} and str(subject.behaviour.entity) in state


def test_an_imported_api_alone_makes_all_splits_with_state() -> None:
    worlds = make_worlds(PETS, load_book(), Simulator())
    for world in worlds.values():
        for task in generate(world, 12, {"single": 0.5, "parallel": 0.5}, 0):
            steps, end_state = gold_steps(task, Simulator())
            assert task.state and end_state == task.end_state and task.facts
            assert all(fact in str(steps) for fact in task.facts)


def test_a_user_s_own_tools_alone_make_all_splits() -> None:
    """Without the catalog: every kind but chains, which become single."""
    own = tuple(
        tool({"city": {"type": "string"}, "count": {"type": "integer"}}, ["city"], name)
        for name in ("a_tool", "b_tool", "c_tool")
    )
    worlds = make_worlds(own, load_book(), Simulator())
    shares = {"single": 0.2, "chain": 0.2, "parallel": 0.2, "distractors": 0.2, "missing": 0.2}
    for world in worlds.values():
        tasks = generate(world, 20, shares, 0)
        kinds = [task.kind for task in tasks]
        assert kinds.count(TaskKind.SINGLE) == 8 and TaskKind.CHAIN not in kinds
        for task in tasks:
            gold_steps(task, Simulator())
    names = {split: {t.name for t in world.imported} for split, world in worlds.items()}
    assert names["train"] == names["test"] and not names["train"] & names["unseen_tools"] and names["unseen_tools"]


def test_a_missing_value_of_an_imported_tool_is_asked_for_by_its_name() -> None:
    own = (tool({"repo_path": {"type": "string"}}, ["repo_path"], "scan"), tool({"city": {"type": "string"}}, ["city"], "walk"))
    world = make_worlds(own, load_book(), Simulator())["train"]
    task = make_task(world, TaskKind.MISSING, 0)
    assert task.facts[0] in ("repo path", "city") and task.question in ("Use scan.", "Use walk.")


def test_few_imported_tools_go_to_training() -> None:
    tools = (
        load_imports(MCP_LISTS / "mcp-server-git.json")
        + tuple(tool({"city": {"type": "string"}}, ["city"], f"extra_{n}") for n in range(6))
        + (Tool.model_validate({**CATALOG_TOOL}),)
    )
    worlds = make_worlds(tools, load_book(), Simulator())
    assert len(worlds["train"].imported) == TRAIN_IMPORTED
    assert worlds["train"].imported == worlds["test"].imported
    assert not {t.name for t in worlds["train"].imported} & {t.name for t in worlds["unseen_tools"].imported}


CATALOG_TOOL = {
    "name": "add_days",
    "domain": "calendar",
    "parameters": {
        "type": "object",
        "properties": {"date": {"type": "string", "format": "date"}, "days": {"type": "integer"}},
        "required": ["date", "days"],
    },
    "behaviour": {"kind": "compute", "function": "add_days"},
}
