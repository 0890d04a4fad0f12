"""The stage writes three checked splits, the same bytes each time, and refuses tasks whose gold does not score 1.0."""

from dataclasses import replace
from pathlib import Path

import pytest

from slca import tables
from slca.errors import DataError
from slca.files import file_digest
from slca.hierr import score
from slca.params import Params, Rollouts, Tasks
from slca.records import Call, Task, TaskKind
from slca.sgls import stage as schemas_stage
from slca.tasks import stage
from slca.tasks.gold import gold_steps

PARAMS = Params(tasks=Tasks(train=60, test=20, unseen_tools=12), rollouts=Rollouts(tasks=20))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    schemas_stage.run(PARAMS, root)
    stage.run(PARAMS, root)
    return root


@pytest.fixture(scope="module")
def tasks(written: Path) -> list[Task]:
    return tables.read_tasks(written / "data/tasks/train.parquet")


def test_splits_have_the_asked_sizes(written: Path) -> None:
    sizes = {
        split: len(tables.read_tasks(written / f"data/tasks/{split}.parquet")) for split in ("train", "test", "unseen_tools")
    }
    assert sizes == {"train": 60, "test": 20, "unseen_tools": 12}


def test_a_second_run_writes_the_same_bytes(written: Path, tmp_path: Path) -> None:
    schemas_stage.run(PARAMS, tmp_path)
    stage.run(PARAMS, tmp_path)
    for split in ("train", "test", "unseen_tools"):
        assert file_digest(tmp_path / f"data/tasks/{split}.parquet") == file_digest(written / f"data/tasks/{split}.parquet")


def test_another_seed_gives_other_tasks(written: Path, tmp_path: Path) -> None:
    schemas_stage.run(PARAMS, tmp_path)
    stage.run(PARAMS.model_copy(update={"tasks": PARAMS.tasks.model_copy(update={"seed": 1})}), tmp_path)
    questions = {root: {t.question for t in tables.read_tasks(root / "data/tasks/train.parquet")} for root in (tmp_path, written)}
    assert len(questions[tmp_path] & questions[written]) < 10


def test_tasks_survive_parquet_and_still_check(tasks: list[Task]) -> None:
    stage.check_tasks(tasks, PARAMS)
    for task in tasks:
        steps, end_state = gold_steps(task, PARAMS.simulator)
        assert end_state == task.end_state
        assert [len(step.attempts) for step in steps] == [*(len(step) for step in task.gold), 0]


def test_injected_faults_leave_the_gold_plan_alone(tasks: list[Task]) -> None:
    faulty = PARAMS.simulator.model_copy(update={"fault_rate": 1.0})
    called = next(task for task in tasks if task.gold)
    assert gold_steps(called, faulty) == gold_steps(called, PARAMS.simulator)


def spoilt(task: Task) -> list[tuple[str, Task]]:
    return [
        ("outcome", replace(task, end_state="0" * 64)),
        ("outcome", replace(task, facts=(*task.facts, "nothing says this"))),
        ("summary", replace(task, reply="This is about something else.")),
    ]


def test_a_task_whose_gold_does_not_score_is_named_with_the_component(tasks: list[Task]) -> None:
    task = next(task for task in tasks if task.kind is TaskKind.SINGLE)
    for component, bad in spoilt(task):
        with pytest.raises(DataError, match=rf"Task {task.task_id}: its own gold scores .* in {component}"):
            stage.check_tasks([bad], PARAMS)


def test_a_gold_call_that_fails_is_named(tasks: list[Task]) -> None:
    task = next(task for task in tasks if task.kind is TaskKind.SINGLE)
    call = task.gold[0][0]
    bad = replace(task, gold=((Call(call.name, {}),),))
    with pytest.raises(DataError, match=rf"Task {task.task_id}: the gold call {call.name} fails \(invalid_arguments"):
        gold_steps(bad, PARAMS.simulator)


def test_needless_calls_and_silence_do_not_score_where_no_call_is_right(tasks: list[Task]) -> None:
    for kind in (TaskKind.ABSTAIN, TaskKind.MISSING):
        task = next(task for task in tasks if task.kind is kind)
        rollout = stage.gold_rollout(replace(task, reply="."), PARAMS.simulator)
        assert score(task, rollout, PARAMS.rewards).summary_score == 0.0


def test_a_missing_input_names_the_stage_to_run(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="run the stage 'schemas'"):
        stage.run(PARAMS, tmp_path)
    assert not (tmp_path / "data").exists()


def test_catalog_only_needs_no_imported_tools(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    schemas = {"imports": str(tmp_path / "none"), "domains": ("travel",)}
    only = PARAMS.model_copy(update={"schemas": PARAMS.schemas.model_copy(update=schemas)})
    schemas_stage.run(only, tmp_path)
    stage.run(only, tmp_path)
    for task in tables.read_tasks(tmp_path / "data/tasks/test.parquet"):
        assert {tool["domain"] for tool in task.tools} <= {"travel"}
