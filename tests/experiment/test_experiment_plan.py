"""Plans: what they may say, what one sentence refuses, and in what order their runs are made."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from slca import params as p
from slca.errors import DataError, ParamsError
from slca.experiment.plan import BUDGET, load
from slca.experiment.run import run

CELL = {"name": "a", "title": "a", "methods": ["grpo", "slca"]}
PLAN: dict[str, Any] = {"title": "t", "seeds": [0, 1], "evaluate": {"test": 4, "unseen_tools": 2}, "cells": [CELL]}


def written(folder: Path, **changes: Any) -> str:
    (folder / "mine.yaml").write_text(yaml.safe_dump(PLAN | changes))
    return str(folder / "mine.yaml")


def another(**changes: Any) -> dict[str, Any]:
    return CELL | {"name": "b", "against": "a"} | changes


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cells": []}, ["cells"]),
        ({"seeds": []}, ["seeds"]),
        ({"sedes": [1]}, ["sedes", "no such parameter"]),
        ({"cells": [CELL | {"methods": ["grpo", "ppo"]}]}, ["cells.0.methods", "ppo"]),
        ({"cells": [CELL | {"methods": ["grpo", "grpo"]}]}, ["cells.a.methods", "once"]),
        ({"cells": [CELL | {"seeds": [3, 3]}]}, ["cells.a.seeds", "once"]),
        ({"cells": [CELL, CELL]}, ["every name must be there once"]),
        ({"cells": [CELL | {"name": "no/path"}]}, ["cells.0.name", "no/path"]),
        ({"cells": [CELL | {"name": "noise-0.5"}]}, ["cells.0.name", "noise-0.5"]),
        ({"cells": [CELL | {"set": {"train": {"stepz": 3}}}]}, ["cells.a.set", "train.stepz", "no such parameter"]),
        ({"cells": [CELL | {"set": {"rewards": {"judge_noise": -1}}}]}, ["cells.a.set", "rewards.judge_noise", "-1"]),
        ({"cells": [CELL | {"set": {"tasks": {"train": 3}}}]}, ["cells.a.set.tasks", "cannot change"]),
        ({"set": {"train": {"seeds": [3]}}}, ["set.train", "cannot change"]),
        ({"set": {"rollouts": {"group_size": 1}}}, ["set", "rollouts.group_size"]),
        (
            {"cells": [CELL | {"set": {"simulator": {"schemas": False}, "rewards": {"tool_reward": "outcome"}}}]},
            ["cells.a.set", "simulator.schemas", "outcome"],
        ),
        ({"cells": [CELL, another(against="c")]}, ["cells.b.against", "'c'"]),
        ({"cells": [CELL, another(against="b")]}, ["cells.b.against", "no other cell"]),
        ({"cells": [CELL, another(methods=["gdpo"])]}, ["cells.b.against", "shares no method"]),
        ({"cells": [CELL, another(set={"train": {"steps": 3}})]}, ["cells.b.against", "train.steps", "equal budgets"]),
        ({"order": [{"cell": "c"}]}, ["order", "no cell 'c'"]),
        ({"order": [{"cell": "a", "methods": ["rltr"]}]}, ["order", "no method 'rltr'"]),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_place(changes: dict[str, Any], words: list[str], tmp_path: Path) -> None:
    name = written(tmp_path, **changes)
    with pytest.raises(ParamsError) as raised:
        load(name, p.Params())
    sentence = str(raised.value)
    assert sentence.endswith(".") and "\n" not in sentence
    assert all(word in sentence for word in words), sentence


@pytest.mark.parametrize(("text", "word"), [("[", "not valid YAML"), ("- a", "must hold a plan")])
def test_a_file_that_is_no_plan_is_refused(text: str, word: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(ParamsError, match=word):
        load(str(tmp_path / "mine.yaml"), p.Params())


def test_an_unknown_plan_is_named_with_those_that_there_are() -> None:
    with pytest.raises(ParamsError, match=r"no plan 'nonsense'.*plan, smoke"):
        load("nonsense", p.Params())


def test_an_unknown_cell_and_a_missing_input_are_named(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match=r"--only 'b'.*the cells are a"):
        run(p.Params(), written(tmp_path), ["b"], None, tmp_path)
    with pytest.raises(DataError, match=r"train\.parquet does not exist; run the stage 'tasks'"):
        run(p.Params(), written(tmp_path), [], None, tmp_path)


def test_what_is_ordered_comes_first_seed_by_seed(tmp_path: Path) -> None:
    order = [{"cell": "b", "methods": ["slca"]}, {"cell": "a"}]
    plan = load(written(tmp_path, cells=[CELL, CELL | {"name": "b", "seeds": [5]}], order=order), p.Params())
    made = [f"{cell.name}/{run.name}" for cell, run in plan.runs()]
    assert made == ["b/slca-5", "a/grpo-0", "a/slca-0", "a/grpo-1", "a/slca-1", "b/grpo-5"]


def test_the_default_plan_holds_what_it_says_it_does() -> None:
    params = p.Params()
    plan = load("plan", params)
    runs = Counter(cell.name for cell, _ in plan.runs())
    assert (runs.pop("judge-noise-0"), runs.pop("judge-noise-half"), runs.pop("judge-noise-1")) == (35, 12, 20)
    assert runs.pop("outcome-reward") == 6 and set(runs.values()) == {3} and len(runs) == 5
    # 88 runs x (75 steps x 2.4 s + 896 tasks x .04 s) / 2, as its head says
    assert plan.expected_seconds(params) == pytest.approx(88 * (75 * 2.4 + 896 * 0.04) / 2)
    first = [(cell.name, run.method) for cell, run in plan.runs()][:10]
    assert set(first) == {("judge-noise-0", "grpo"), ("judge-noise-0", "slca")}


def test_cells_differ_in_what_they_set_and_in_nothing_else() -> None:
    params = p.Params()
    plan = load("plan", params)
    base = plan.params_of(plan.cell("judge-noise-0"), params).model_dump()
    for cell in plan.cells:
        own = plan.params_of(cell, params).model_dump()
        changed = {
            (section, field)
            for section, fields in own.items()
            if isinstance(fields, dict)
            for field in fields
            if fields[field] != base[section][field]
        }
        assert changed == {(section, field) for section, fields in cell.set.items() for field in fields}
        assert not changed & {(section, field) for section, fields in BUDGET.items() for field in fields}


def test_every_run_is_evaluated_on_the_full_simulator_without_the_rewards_of_its_cell() -> None:
    params = p.Params()
    plan = load("plan", params)
    assert not plan.params_of(plan.cell("without-sgls"), params).simulator.schemas
    common = plan.common(params)
    assert common.simulator.schemas and common.rewards == params.rewards
