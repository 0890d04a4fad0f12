"""Shards over a Prefect task runner: the files of a local run, whoever makes them, and only those that are missing."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from samples import STATE, TOOL

from flows.shards import make_all
from slca.errors import DataError, ToolError
from slca.files import file_digest, read_json
from slca.params import Execution, Params, Rollouts
from slca.policy.model import Policy
from slca.records import Call, Task, TaskKind
from slca.rollouts import stage
from slca.tables import read_rollouts, read_tasks, write_tasks

ROLLOUTS = Rollouts(tasks=5, group_size=2, shard_tasks=1, max_turns=2, max_turn_tokens=6)
RUNNERS = ["threads", pytest.param("dask", marks=pytest.mark.slow)]


def params(runner: str) -> Params:
    return Params(rollouts=ROLLOUTS, execution=Execution(processes=2, runner=runner))


@pytest.fixture(scope="module")
def project(policy: Policy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    policy.model.save_pretrained(root / "models" / "warmstart")
    policy.format.tokenizer.save_pretrained(root / "models" / "warmstart")
    first = Task("", TaskKind.SINGLE, "", (TOOL,), ((Call("get_weather", {"city": "Oslo"}),),), ("snow",), "Snow.", STATE, "")
    tasks = [replace(first, task_id=f"test-{i}", question=f"Weather in Oslo on day {i}?") for i in range(9)]
    write_tasks(root / "data" / "tasks" / "train.parquet", tasks)
    return root


@pytest.fixture
def root(project: Path, tmp_path: Path) -> Iterator[Path]:
    shutil.copytree(project, tmp_path / "root")
    yield tmp_path / "root"


def written(root: Path) -> dict[str, str]:
    return {file.name: file_digest(file) for file in sorted((root / "data" / "rollouts").iterdir())}


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_flow_writes_the_files_of_a_local_run(runner: str, prefect_api: str, root: Path, tmp_path: Path) -> None:
    pytest.importorskip("prefect_dask") if runner == "dask" else None
    local = tmp_path / "local"
    shutil.copytree(root, local)
    stage.run(params("local"), local)
    stage.run(params(runner), root)
    assert written(root) == written(local)
    manifest = read_json(root / "data" / "rollouts" / "manifest.json")
    assert manifest["rollouts"] == 10
    assert {shard["file"]: shard["digest"] for shard in manifest["shards"]} == {
        name: mark for name, mark in written(root).items() if name != "manifest.json"
    }


def test_a_failing_shard_fails_the_stage_with_its_error_and_the_others_are_kept(prefect_api: str, root: Path) -> None:
    """Once mended, the stage makes what is missing and nothing else."""
    table = root / "data" / "tasks" / "train.parquet"
    tasks = read_tasks(table)
    third = stage.choose_tasks(tasks, ROLLOUTS)[2]
    work = root / ".slca" / "work" / "rollouts"
    write_tasks(table, [replace(task, tools=(TOOL, TOOL)) if task == third else task for task in tasks])
    with pytest.raises(ToolError, match=f"{third.task_id}.*'get_weather' occurs twice"):
        stage.run(params("threads"), root)
    made = sorted(file.name for file in (work / "shards").glob("part-*"))
    assert made == ["part-00000.parquet", "part-00001.parquet", "part-00003.parquet", "part-00004.parquet"]
    assert not (root / "data" / "rollouts").exists()
    times = {name: (work / "shards" / name).stat().st_mtime_ns for name in made}
    # Mended as a user would mend the machine, not the inputs: changed inputs would start afresh.
    make_all("slca.rollouts.stage:make_shard", params("threads").model_dump_json(), str(root), [0, 1, 3, 4])
    assert {name: (work / "shards" / name).stat().st_mtime_ns for name in made} == times


def test_a_missing_part_is_noticed_by_the_manifest(prefect_api: str, root: Path) -> None:
    stage.run(params("threads"), root)
    folder = root / "data" / "rollouts"
    assert len(list(read_rollouts(folder))) == 10
    (folder / "part-00002.parquet").unlink()
    with pytest.raises(DataError, match=r"manifest\.json and the files beside it differ in part-00002\.parquet"):
        list(read_rollouts(folder))
