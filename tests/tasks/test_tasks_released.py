"""Tasks from the released splits: what a row becomes, which rows are left out, and which tools count as unseen."""

import json
import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slca.errors import DataError
from slca.params import Params, Rewards, Tasks
from slca.records import Call, TaskKind
from slca.tables import read_tasks
from slca.tasks import stage
from slca.tasks.released import on_unseen_tools, released_tasks

CITY: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def row(gold: Any, *names: str) -> dict[str, Any]:
    tools = [
        {"type": "function", "function": {"name": name, "description": "", "parameters": CITY}} for name in names or ("a", "b")
    ]
    return {
        "prompt": [{"role": "user", "content": "Please."}],
        "reward_model": {"style": "rule", "ground_truth": json.dumps(gold)},
        "extra_info": {"index": 0, "tools": json.dumps(tools)},
    }


def to(name: str, city: Any = "Łódź") -> dict[str, Any]:
    return {"name": name, "arguments": {"city": city}}


def written(path: Path, *rows: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return path


def test_a_row_becomes_a_task_of_the_kind_of_its_plan(tmp_path: Path) -> None:
    plans = [[], [[to("a")]], [[to("a"), to("b")]], [[to("a")], [to("b")]]]
    found = released_tasks(written(tmp_path / "rl.parquet", *(row(plan) for plan in plans)), "rl", 10)
    assert [task.kind for task in found.tasks] == [TaskKind.ABSTAIN, TaskKind.SINGLE, TaskKind.PARALLEL, TaskKind.CHAIN]
    assert [task.task_id for task in found.tasks] == ["rl-0", "rl-1", "rl-2", "rl-3"] and not found.refused
    assert found.tasks[2].gold == ((Call("a", {"city": "Łódź"}), Call("b", {"city": "Łódź"})),)
    assert len(released_tasks(tmp_path / "rl.parquet", "rl", 2).tasks) == 2


def test_rows_that_no_policy_could_score_on_are_left_out_with_the_reason(tmp_path: Path) -> None:
    rows = [row([[to("a", 5)]]), row(["a"]), row([[to("missing")]]), row([[to("b")]])]
    found = released_tasks(written(tmp_path / "rl.parquet", *rows), "rl", 10)
    assert [task.task_id for task in found.tasks] == ["rl-3"]
    assert sorted(found.refused.values()) == [1, 1, 1]
    assert {"schema", "arguments", "list"} <= {word for reason in found.refused for word in reason.replace(",", " ").split()}
    with pytest.raises(DataError, match=r"gives no task .*1 rows"):
        released_tasks(written(tmp_path / "none.parquet", row(["a"])), "rl", 10)


def test_the_stage_writes_three_splits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    written(tmp_path / "in/rl.parquet", row([[to("a")]]), row(["a"]))
    written(tmp_path / "in/eval.parquet", row([[to("b")]]), row([[to("c")]], "c", "d"), row([[to("c")]], "c", "a"))
    settings = Tasks(train=200, test=200, unseen_tools=5, released_train="in/rl.parquet", released_eval="in/eval.parquet")
    with caplog.at_level(logging.WARNING):
        stage.run(Params(tasks=settings), tmp_path)
    splits = {name: read_tasks(tmp_path / f"data/tasks/{name}.parquet") for name in ("train", "test", "unseen_tools")}
    ids = {name: [task.task_id for task in tasks] for name, tasks in splits.items()}
    assert ids == {"train": ["rl-0"], "test": ["eval-0", "eval-1", "eval-2"], "unseen_tools": ["eval-1"]}
    assert "train: 1 rows left out" in caplog.text
    assert on_unseen_tools(tuple(splits["test"]), ()) == splits["test"]


def test_both_splits_and_a_reward_without_state() -> None:
    with pytest.raises(ValueError, match="go together"):
        Tasks(released_train="x")
    with pytest.raises(ValueError, match="no state to judge"):
        Params(tasks=Tasks(released_train="x", released_eval="y"), rewards=Rewards(tool_reward="outcome"))
