"""The flow against a real Prefect server and real DVC repositories."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from credit_cases import a_reward
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    FlowRunFilter,
    FlowRunFilterId,
    LogFilter,
    LogFilterFlowRunId,
)
from prefect.client.schemas.objects import FlowRun, State, TaskRun
from prefect.client.schemas.sorting import FlowRunSort, LogSort

from flows.dvc_process import DvcFailed
from flows.pipeline import pipeline
from slca.errors import RunStopped
from slca.files import file_digest, write_json
from slca.records import Task
from slca.report import gate
from slca.tables import write_rewards, write_tasks

ROOT = Path(__file__).parents[2]

RESULTS = {"profile": "tiny", "methods": {"slca": {"test": {"success": {"mean": 0.5, "sd": 0.1, "seeds": 3}}}}}

REPORT = f"""
from pathlib import Path
Path("reports").mkdir(exist_ok=True)
Path("reports/results.json").write_text('''{json.dumps(RESULTS)}''')
Path("reports/results.md").write_text("# São 東京\\n" + Path("model-0").read_text())
print("reported")
"""

STAGES = {
    "report": {
        "cmd": "python report.py",
        "deps": ["model-0", "report.py"],
        "outs": ["reports/results.json", "reports/results.md"],
    },
    "train": {
        "matrix": {"seed": [0, 1]},
        "cmd": "for i in 1 2 3; do echo step $i; done; cp data.txt model-${item.seed}",
        "deps": ["data.txt"],
        "outs": ["model-${item.seed}"],
    },
    "data": {"cmd": "echo data > data.txt", "outs": ["data.txt"]},
}


@pytest.fixture
def repository(make_repository: Callable[[dict[str, Any]], Path]) -> Path:
    path = make_repository(STAGES)
    (path / "report.py").write_text(REPORT)
    return path


def run_state(**parameters: Any) -> State[Any]:
    state = pipeline(return_state=True, **parameters)
    assert isinstance(state, State)
    return state


def flow_run_id(state: State[Any]) -> UUID:
    identity = state.state_details.flow_run_id
    assert identity
    return identity


def task_states(identity: UUID) -> dict[str, str]:
    """State names by task run name."""
    with get_client(sync_client=True) as client:
        runs: list[TaskRun] = client.read_task_runs(flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[identity])))
    return {run.name: run.state_name or "" for run in runs}


def artifacts_of(identity: UUID) -> dict[str, str]:
    """Data by key."""
    with get_client(sync_client=True) as client:
        filters = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[identity]))
        return {str(artifact.key): str(artifact.data) for artifact in client.read_artifacts(artifact_filter=filters)}


def test_a_run_has_a_task_per_stage_its_lines_and_the_report_as_artifacts(
    prefect_api: str, repository: Path, wait_for: Callable[..., Any]
) -> None:
    state = run_state(repository=str(repository))
    stages = {"data": "ran", "train@0": "ran", "train@1": "ran", "report": "ran"}
    result = state.result()
    assert result["stages"] == stages and next(iter(result["stages"])) == "data"
    assert result["artifacts"] == ["slca-results-table", "slca-results-methods", "slca-results"]
    assert "no reports/accepted.json" in result["gate"]

    identity = flow_run_id(state)
    done = dict.fromkeys([*stages, "artifacts", "gate"], "Completed")
    # Task states reach the server as events, a moment later.
    wait_for("the tasks' states", lambda: task_states(identity) == done)

    found = artifacts_of(identity)
    assert json.loads(found["slca-results-table"]) == [{"name": "profile", "value": "tiny"}]
    measure = {"name": "slca/test/success", "value": None, "mean": 0.5, "sd": 0.1, "seeds": 3}
    assert json.loads(found["slca-results-methods"]) == [measure]
    assert found["slca-results"] == "# São 東京\ndata\n"

    with get_client(sync_client=True) as client:

        def logged() -> list[str]:
            logs = client.read_logs(
                log_filter=LogFilter(flow_run_id=LogFilterFlowRunId(any_=[identity])), limit=200, sort=LogSort.TIMESTAMP_ASC
            )
            return [log.message for log in logs]

        wait_for("the last line in the log", lambda: result["gate"] in logged())
        lines = logged()
    steps = ["step 1", "step 2", "step 3"]
    assert [line for line in lines if line in steps] == steps * 2
    assert lines.index("Running stage 'data':") < lines.index("step 1") < lines.index("reported")


@pytest.mark.slow
def test_staleness_is_left_to_dvc(prefect_api: str, repository: Path) -> None:
    def outcomes(**parameters: Any) -> dict[str, str]:
        result = run_state(repository=str(repository), **parameters).result()
        return dict(result["stages"])

    assert outcomes(targets=["train@1"]) == {"data": "ran", "train@1": "ran"}
    assert outcomes() == {"data": "unchanged", "train@0": "ran", "train@1": "unchanged", "report": "ran"}
    assert outcomes(targets=["train"], force=True) == {"data": "ran", "train@0": "ran", "train@1": "ran"}
    (repository / "report.py").write_text(REPORT + "\n# edited\n")
    assert outcomes() == {"data": "unchanged", "train@0": "unchanged", "train@1": "unchanged", "report": "ran"}
    (repository / "report.py").write_text(REPORT)
    assert outcomes(targets=["report"]) == {"data": "unchanged", "train@0": "unchanged", "report": "cached"}


def test_a_failing_stage_fails_its_task_and_the_flow_with_its_name(
    prefect_api: str, make_repository: Callable[[dict[str, Any]], Path], wait_for: Callable[..., Any]
) -> None:
    broken = {"cmd": "echo out of luck >&2; exit 3", "deps": ["good.txt"]}
    after = {"cmd": "echo never > after.txt", "deps": ["good.txt"], "outs": ["after.txt"]}
    stages = {"good": {"cmd": "echo > good.txt", "outs": ["good.txt"]}, "broken": broken, "after": after}
    state = run_state(repository=str(make_repository(stages)), targets=["broken"])
    assert state.is_failed()
    assert "Stage 'broken' failed" in (state.message or "")
    with pytest.raises(DvcFailed, match="out of luck"):
        state.result()
    wait_for(
        "the tasks' states", lambda: task_states(flow_run_id(state)) == {"good": "Completed", "broken": "Failed"}, seconds=30
    )


def test_a_repository_without_a_report_has_no_artifacts(
    prefect_api: str, make_repository: Callable[[dict[str, Any]], Path]
) -> None:
    state = run_state(repository=str(make_repository({"only": {"cmd": "true"}})))
    found = "Nothing to compare: the stage 'report' is not among the stages of this run."
    assert state.result() == {"stages": {"only": "ran"}, "artifacts": [], "gate": found}


def write_results(root: Path, task: Task, scores: str) -> None:
    """What the gate reads of a run: the tasks of two splits, slca-0's score on each, and the report of them."""
    table = Path("data/evaluation/slca-0.parquet")
    rewards = []
    for split in ("test", "unseen_tools"):
        tasks = [replace(task, task_id=f"{split}-{number:03d}") for number in range(len(scores))]
        write_tasks(root / f"data/tasks/{split}.parquet", tasks)
        for one, score in zip(tasks, scores, strict=True):
            rewards.append(a_reward(f"{one.task_id}/0", task_id=one.task_id, success=score == "1"))
    write_rewards(root / table, rewards)
    mean = scores.count("1") / len(scores)
    success = {"success": {"mean": mean, "low": mean - 0.05, "high": mean + 0.05}}
    results = {
        "profile": "tiny",
        "run": {"seeds": [0], "bootstrap": 200, "bootstrap_seed": 0},
        "methods": {"slca": {"test": success, "unseen_tools": success}},
        "sources": {table.as_posix(): file_digest(root / table)},
    }
    write_json(root / "reports" / "results.json", results)


def test_a_run_whose_success_fell_fails_with_the_numbers_and_can_be_looked_at(
    prefect_api: str, make_repository: Callable[[dict[str, Any]], Path], task: Task, wait_for: Callable[..., Any]
) -> None:
    repository = make_repository({"report": {"cmd": "echo reported"}})
    write_results(repository, task, "1" * 90 + "0" * 10)
    gate.accept(repository)
    write_results(repository, task, "1" * 40 + "0" * 60)
    state = run_state(repository=str(repository))
    assert state.is_failed()
    message = state.message or ""
    numbers = "has 0.400 [0.350, 0.450] where 0.900 [0.850, 0.950] was accepted, a difference of -0.500 ["
    for split in ("test", "unseen_tools"):
        assert f"slca on {split} {numbers}" in message
    with pytest.raises(RunStopped):
        state.result()
    identity = flow_run_id(state)
    done = {"report": "Completed", "artifacts": "Completed", "gate": "Failed"}
    wait_for("the tasks' states", lambda: task_states(identity) == done, seconds=30)
    found = artifacts_of(identity)
    assert "slca-results-methods" in found
    figures = json.loads(found["slca-gate"])[0]
    assert (figures["present_mean"], figures["accepted_mean"], figures["fell"]) == (0.4, 0.9, True)

    assert run_state(repository=str(repository), gate=False).is_completed()
    gate.accept(repository)
    assert "difference of +0.000" in run_state(repository=str(repository)).result()["gate"]


@pytest.mark.slow
def test_sigterm_to_the_flow_process_ends_the_stage(prefect_api: str, sleeping: Any) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "flows.pipeline", "--repository", str(sleeping.path)],
        cwd=ROOT,
        env={**os.environ, "PREFECT_API_URL": prefect_api},
    )
    processes = sleeping.processes()
    process.send_signal(signal.SIGTERM)
    sleeping.wait_until_gone(processes)
    assert process.wait(timeout=30) != 0
    with get_client(sync_client=True) as client:
        runs: list[FlowRun] = client.read_flow_runs(sort=FlowRunSort.START_TIME_DESC, limit=1)
    # "Crashed" as of Prefect 3.9; 3.7 ends before it tells the server. The worker does in either case.
    assert runs[0].state_name in ("Crashed", "Running")
    sleeping.assert_repro_works()


def test_the_command_line_says_what_failed(prefect_api: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "flows.pipeline", "--repository", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PREFECT_API_URL": prefect_api},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "not inside of a DVC repository" in done.stderr
