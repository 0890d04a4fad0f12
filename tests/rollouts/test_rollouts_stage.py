"""The rollouts stage: the same bytes from one process or two, and after an interruption."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from slca.files import file_digest
from slca.params import Execution, Params, Rollouts
from slca.policy.model import Policy
from slca.records import Rollout, Task
from slca.rollouts import stage
from slca.tables import read_rollouts, write_rollouts, write_tasks

SETTINGS = Rollouts(tasks=5, group_size=2, shard_tasks=2, max_turns=2, max_turn_tokens=6)  # three shards: 2, 2 and 1 tasks
SHARDS = ["part-00000.parquet", "part-00001.parquet", "part-00002.parquet"]
FILES = ["manifest.json", *SHARDS]


def params(processes: int = 1, **changes: object) -> Params:
    rollouts = SETTINGS.model_copy(update=changes)
    return Params(rollouts=rollouts, execution=Execution(processes=processes))


@pytest.fixture(scope="module")
def project(policy: Policy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a saved policy; tests work in copies of it."""
    root = tmp_path_factory.mktemp("project")
    policy.model.save_pretrained(root / "models" / "warmstart")
    policy.format.tokenizer.save_pretrained(root / "models" / "warmstart")
    return root


@pytest.fixture
def root(project: Path, task: Task, tmp_path: Path) -> Path:
    shutil.copytree(project, tmp_path, dirs_exist_ok=True)
    tasks = [replace(task, task_id=f"test-{i}", question=f"Weather in Oslo on day {i}?") for i in range(9)]
    write_tasks(tmp_path / "data" / "tasks" / "train.parquet", tasks)
    return tmp_path


def written(root: Path) -> dict[str, str]:
    return {file.name: file_digest(file) for file in sorted((root / "data" / "rollouts").iterdir())}


class Interrupted(BaseException):
    pass


def test_groups_of_the_chosen_tasks_are_written_in_order(root: Path) -> None:
    stage.run(params(), root)
    assert list(written(root)) == FILES
    rollouts = list(read_rollouts(root / "data" / "rollouts"))
    chosen = list(dict.fromkeys(rollout.task_id for rollout in rollouts))
    assert [(rollout.task_id, rollout.member) for rollout in rollouts] == [(task, m) for task in chosen for m in range(2)]
    assert len(chosen) == 5 and chosen != [f"test-{i}" for i in range(5)]  # a sample, not the table's head
    assert {rollout.policy_version for rollout in rollouts} == {file_digest(root / "models/warmstart/model.safetensors")[:16]}
    assert not (root / ".slca" / "work" / "rollouts").exists()


def test_the_choice_of_tasks_does_not_depend_on_their_order(task: Task) -> None:
    tasks = [replace(task, task_id=f"test-{i}") for i in range(40)]
    chosen = stage.choose_tasks(tasks, SETTINGS)
    assert stage.choose_tasks(tasks[::-1], SETTINGS) == chosen
    assert stage.choose_tasks(tasks, SETTINGS.model_copy(update={"seed": 1})) != chosen
    assert stage.choose_tasks(tasks, SETTINGS.model_copy(update={"tasks": 7}))[:5] == chosen  # more tasks add to it


def test_an_interrupted_stage_goes_on_and_writes_the_same_bytes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.run(params(), root)
    whole = written(root)
    made: list[str] = []
    after = 2

    def write(path: Path, rollouts: Sequence[Rollout]) -> None:
        if len(made) == after:
            raise Interrupted
        made.append(path.name)
        write_rollouts(path, rollouts)

    monkeypatch.setattr(stage, "write_rollouts", write)
    with pytest.raises(Interrupted):
        stage.run(params(), root)
    assert made == SHARDS[:2]
    assert written(root) == whole  # the older output is there until the new one is complete
    work = root / ".slca" / "work" / "rollouts" / "shards"
    (work / SHARDS[0]).unlink()
    (work / ".part-00002.parquet.tmp-1").write_bytes(b"half a shard, left by a killed process")
    made.clear()
    after = 3
    stage.run(params(), root)
    assert made == [SHARDS[0], SHARDS[2]]  # what was there was not made again
    assert written(root) == whole


def test_other_parameters_do_not_continue_old_shards(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.run(params(seed=1), root)
    expected = written(root)

    def interrupted(path: Path, rollouts: Sequence[Rollout]) -> None:
        write_rollouts(path, rollouts)
        raise Interrupted

    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(stage, "write_rollouts", interrupted)
        stage.run(params(seed=0), root)
    stage.run(params(seed=1), root)
    assert written(root) == expected


def test_two_runs_write_the_same_bytes(root: Path) -> None:
    """Also with fewer rows than rollouts, when what is generated beside what is decided by which rollouts end first."""
    for rows in (64, 3):
        stage.run(params(max_rows=rows), root)
        first = written(root)
        stage.run(params(max_rows=rows), root)
        assert written(root) == first


def test_two_processes_write_the_same_bytes_as_one(root: Path) -> None:
    stage.run(params(), root)
    alone = written(root)
    stage.run(params(processes=2), root)
    assert written(root) == alone
