"""Every kind's invariants, over seeds and splits."""

import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slca.errors import DataError
from slca.files import canonical_json, digest
from slca.hierr.words import contains, fold, result_text
from slca.params import Simulator
from slca.records import Call, Task, TaskKind, plan_to_json
from slca.sgls.catalog_loader import MCP_LISTS, load_catalog
from slca.sgls.stage import load_imports
from slca.sgls.tool import Tool, load_tools
from slca.tasks.generate import generate, make_task, task_key
from slca.tasks.gold import gold_steps, run_plan
from slca.tasks.phrasing import load_book
from slca.tasks.world import World, make_worlds

SPLITS = ("train", "test", "unseen_tools")
SIMULATOR = Simulator()
SHARES = {"single": 0.3, "parallel": 0.15, "chain": 0.15, "distractors": 0.2, "abstain": 0.1, "missing": 0.1}

seeds = st.integers(0, 2**31)
splits = st.sampled_from(SPLITS)
over_seeds = settings(max_examples=25, deadline=None)


@cache
def worlds() -> dict[str, World]:
    # No fixture: hypothesis would print it, all tools and phrasings.
    return make_worlds(load_catalog() + load_imports(MCP_LISTS), load_book(), SIMULATOR)


def names(task: Task) -> list[str]:
    return [tool["name"] for tool in task.tools]


def sizes(task: Task) -> list[int]:
    return [len(step) for step in task.gold]


def check_common(task: Task, world: World) -> None:
    load_tools(task.tools, "task")  # valid, no name twice
    assert not any({"source", "held_out"} & tool.keys() for tool in task.tools)
    assert len(task.reply) >= 10 and task.facts
    assert all(contains(fold(task.reply), fold(fact)) for fact in task.facts)
    steps, end_state = gold_steps(task, SIMULATOR)
    assert end_state == task.end_state and steps[-1].text == task.reply
    said = [attempt.result for step in steps for attempt in step.attempts]
    if task.gold:
        assert all(contains(result_text(said), fold(fact)) for fact in task.facts)
        printed = "\n".join(json.dumps(result, ensure_ascii=False) for result in said)
        assert all(fact in printed for fact in task.facts)
    else:
        assert end_state == digest(task.state)
    held_out = {tool.name for tool in (*world.background, *world.phrased) if tool.held_out}
    if world.split != "unseen_tools":
        assert not held_out & set(names(task))


@given(seeds, splits)
@over_seeds
def test_single(seed: int, split: str) -> None:
    task = make_task(worlds()[split], TaskKind.SINGLE, seed)
    check_common(task, worlds()[split])
    assert sizes(task) == [1] and 2 <= len(task.tools) <= 3 and 1 <= len(task.facts) <= 3


@given(seeds, splits)
@over_seeds
def test_distractors(seed: int, split: str) -> None:
    task = make_task(worlds()[split], TaskKind.DISTRACTORS, seed)
    check_common(task, worlds()[split])
    assert sizes(task) == [1] and 5 <= len(task.tools) <= 6
    domain = next(tool["domain"] for tool in task.tools if tool["name"] == task.gold[0][0].name)
    assert sum(tool["domain"] == domain for tool in task.tools) >= 2


@given(seeds, splits)
@over_seeds
def test_parallel(seed: int, split: str) -> None:
    task = make_task(worlds()[split], TaskKind.PARALLEL, seed)
    check_common(task, worlds()[split])
    assert sizes(task) in ([2], [3]) and len(task.question.split()) <= 28
    backwards = replace(task, gold=(task.gold[0][::-1],))
    forth, back = gold_steps(task, SIMULATOR), gold_steps(backwards, SIMULATOR)
    assert forth[1] == back[1] and forth[0][0].attempts == back[0][0].attempts[::-1]


@given(seeds, splits)
@over_seeds
def test_chain(seed: int, split: str) -> None:
    task = make_task(worlds()[split], TaskKind.CHAIN, seed)
    check_common(task, worlds()[split])
    assert sizes(task) == [1, 1] and 2 <= len(task.tools) <= 4 and len(task.question.split()) <= 25
    (opening,), (closing,) = task.gold
    first = canonical_json(gold_steps(task, SIMULATOR)[0][0].attempts[0].result)
    linked = [value for value in closing.arguments.values() if str(value) not in task.question]
    assert linked and all(f'"{value}"' in first for value in linked)  # only the first result gives them
    assert opening.name != closing.name


@given(seeds, splits)
@over_seeds
def test_abstain(seed: int, split: str) -> None:
    task = make_task(worlds()[split], TaskKind.ABSTAIN, seed)
    check_common(task, worlds()[split])
    assert task.gold == () and task.facts == ("cannot",) and task.tools


@given(seeds, splits)
@over_seeds
def test_missing(seed: int, split: str) -> None:
    task = make_task(worlds()[split], TaskKind.MISSING, seed)
    check_common(task, worlds()[split])
    assert task.gold == () and len(task.facts) == 1 and 2 <= len(task.tools) <= 3


def broken(task: Task, plan: tuple[tuple[Call, ...], ...]) -> bool:
    """Whether executing ``plan`` instead of the gold plan misses the end state or a fact.

    For a chain also: whether its first call no longer gives the value that the second one needs; the gold plan holds it
    already, a policy would not.
    """
    attempts, end_state = run_plan(load_tools(task.tools, "task"), task.state, plan, SIMULATOR)
    said = result_text(attempt.result for step in attempts for attempt in step if attempt.error is None)
    if task.kind is TaskKind.CHAIN:
        first = canonical_json(attempts[0][0].result) if attempts[0] else ""
        needed = [value for value in task.gold[1][0].arguments.values() if str(value) not in task.question]
        if any(f'"{value}"' not in first for value in needed):
            return True
    return end_state != task.end_state or not all(contains(said, fold(fact)) for fact in task.facts)


def other(value: object) -> object:
    return value + 1 if isinstance(value, int) else f"{value}x"


def replaced(task: Task, place: tuple[int, int], *calls: Call) -> tuple[tuple[Call, ...], ...]:
    """The gold plan with ``calls`` in place of the one at ``place`` (step, position)."""
    i, j = place
    step = task.gold[i]
    return (*task.gold[:i], (*step[:j], *calls, *step[j + 1 :]), *task.gold[i + 1 :])


@given(seeds, splits, st.sampled_from([TaskKind.SINGLE, TaskKind.PARALLEL, TaskKind.CHAIN, TaskKind.DISTRACTORS]))
@over_seeds
def test_no_gold_call_can_be_dropped_or_changed(seed: int, split: str, kind: TaskKind) -> None:
    world = worlds()[split]
    task = make_task(world, kind, seed)
    # A looser bound finds the same record: no mistake that an outcome could show. Imported tools have no state to change.
    bounds, imported = {"max_price"}, {tool.name for tool in world.imported}
    for i, step in enumerate(task.gold):
        for j, call in enumerate(step):
            assert broken(task, replaced(task, (i, j)))
            for name in call.arguments.keys() - bounds if call.name not in imported else ():
                changed = Call(call.name, {**call.arguments, name: other(call.arguments[name])})
                assert broken(task, replaced(task, (i, j), changed)), changed


def test_splits_are_disjoint_and_mixed_as_asked() -> None:
    taken: set[str] = set()
    counts = {"train": 300, "test": 100, "unseen_tools": 60}
    made = {split: generate(worlds()[split], count, SHARES, 7, taken) for split, count in counts.items()}
    keys = [task_key(task.question, plan_to_json(task.gold)) for tasks in made.values() for task in tasks]
    assert len(set(keys)) == len(keys)
    assert Counter(task.kind for task in made["train"]) == {
        "single": 90, "parallel": 45, "chain": 45, "distractors": 60, "abstain": 30, "missing": 30,
    }  # fmt: skip
    assert [task.task_id for task in made["test"]][:2] == ["test-00000", "test-00001"]
    trained = {call.name for task in made["train"] for step in task.gold for call in step}
    for task in made["unseen_tools"]:
        called = {call.name for step in task.gold for call in step}
        assert not called or called - trained


def test_phrasings_and_values_of_test_do_not_occur_in_train() -> None:
    words = {split: set() for split in ("train", "test")}
    for split in words:
        for task in generate(worlds()[split], 250, SHARES, 3):
            words[split] |= set(task.question.replace("?", " ").replace(".", " ").replace(",", " ").replace('"', " ").split())
    ids = {split: {word for word in found if word[:2].isupper() and word[2:].isdigit()} for split, found in words.items()}
    dates = {split: {word for word in found if word.startswith("202") and len(word) == 10} for split, found in words.items()}
    assert len(ids["test"]) > 30 and not ids["train"] & ids["test"]
    assert len(dates["test"]) > 20 and not dates["train"] & dates["test"]


def test_a_search_is_surrounded_by_records_that_it_must_not_find() -> None:
    for task in generate(worlds()["train"], 150, {"chain": 1.0}, 5):
        first = next(tool for tool in task.tools if tool["name"] == task.gold[0][0].name)
        if first["behaviour"]["kind"] == "search":
            assert len(task.state[first["behaviour"]["entity"]]) >= 2


def test_same_seed_same_tasks_in_another_process() -> None:
    script = (
        "from slca.params import Simulator\n"
        "from slca.files import digest\n"
        "from slca.sgls.catalog_loader import MCP_LISTS, load_catalog\n"
        "from slca.sgls.stage import load_imports\n"
        "from slca.tasks.generate import generate\n"
        "from slca.tasks.phrasing import load_book\n"
        "from slca.tasks.world import make_worlds\n"
        "world = make_worlds(load_catalog() + load_imports(MCP_LISTS), load_book(), Simulator())['test']\n"
        f"print(digest([repr(task) for task in generate(world, 60, {SHARES!r}, 11)]))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == digest([repr(task) for task in generate(worlds()["test"], 60, SHARES, 11)])


def test_a_task_does_not_depend_on_how_many_there_are() -> None:
    few, many = (generate(worlds()["train"], count, {"single": 1.0}, 2) for count in (5, 40))
    assert few == many[:5]


def test_running_out_of_questions_is_told() -> None:
    zone = {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]}
    world = make_worlds(
        (Tool(name="ping", parameters=zone, domain="own"), Tool(name="pong", parameters=zone, domain="own")),
        load_book(),
        SIMULATOR,
    )["train"]
    with pytest.raises(DataError, match=r"No new task of kind single .* split train .* lower tasks\.train"):
        generate(world, 20, {"single": 1.0}, 0)
