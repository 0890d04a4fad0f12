"""The evaluation of one checkpoint as a flow: its artifacts, its errors, a real tiny model, and no process left behind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId
from prefect.client.schemas.objects import State

from flows import evaluation
from flows.supervised import CommandFailed
from slca.files import read_json, write_json
from slca.params import Params, to_yaml
from slca.policy.model import Policy
from slca.records import Task
from slca.report.gate import Run
from slca.tables import read_rewards, read_traces, write_tasks

ROOT = Path(__file__).parents[2]

BFCL = {
    "package": "p",
    "checker_raised": 0,
    "multiple_accuracy": 0.25,
    "multiple_n": 4,
    "multiple_of": 8,
    "multiple_gold": 1.0,
    "multiple_do_nothing": 0.0,
    "multiple_random_call": 0.125,
}


def run(**parameters: Any) -> tuple[State[Any], dict[str, str]]:
    """The flow run's last state, and its artifacts' data by key."""
    state = evaluation.evaluate(return_state=True, **parameters)
    assert isinstance(state, State) and state.state_details.flow_run_id
    with get_client(sync_client=True) as client:
        filters = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[state.state_details.flow_run_id]))
        return state, {str(one.key): str(one.data) for one in client.read_artifacts(artifact_filter=filters) if one.key}


def test_references_stand_beside_the_measure_that_is_read_against_them() -> None:
    warmstart = {**BFCL, "multiple_accuracy": 0.5}
    table = {row["measure"]: row for row in evaluation.table(BFCL, warmstart)}
    assert list(table) == ["package", "checker_raised", "multiple_accuracy", "multiple_n", "multiple_of"]
    beside = {"gold": 1.0, "do_nothing": 0.0, "random_call": 0.125}
    assert table["multiple_accuracy"] == {"measure": "multiple_accuracy", "checkpoint": 0.25, "warm start": 0.5, **beside}
    assert table["multiple_n"] == {"measure": "multiple_n", "checkpoint": 4, "warm start": 4, **dict.fromkeys(beside)}


@pytest.mark.parametrize("other", [{"multiple_n": 8}, {"package": "q"}, {"simple_n": 1}], ids=["n", "package", "category"])
def test_a_warm_start_that_met_other_items_is_left_out(other: dict[str, Any]) -> None:
    assert {row["warm start"] for row in evaluation.table(BFCL, BFCL | other)} == {None}


def test_the_page_shows_warm_start_and_accepted_run_where_they_were_scored_on_the_same() -> None:
    def report(success: float, tasks: int = 100) -> dict[str, Any]:
        split = {"tasks": tasks, "masked": 0, "success": success}
        return {
            "checkpoint": "c",
            "profile": "tiny",
            "policy": "abc",
            "splits": {"test": split, "unseen_tools": split},
            "bfcl": BFCL,
        }

    figures = {"mean": 0.25, "low": 0.125, "high": 0.375, "by_run": {"slca-0": "1"}}
    settings = {"profile": "tiny", "tasks": {"test": 100, "unseen_tools": 100}}
    accepted = Run.model_validate(
        {"settings": settings, "tasks": {}, "success": {"slca": {"test": figures, "unseen_tools": figures}}}
    )
    tables = {"bfcl": evaluation.table(BFCL, {})}
    page = evaluation.summary(report(0.5), report(0.0), accepted, tables).splitlines()
    # Wilson's interval of 50 of 100: .5 -+ z sqrt(.25/100 + z^2/40000) / (1 + z^2/100) = .5 -+ .096; of 0: 0 to z^2/(100 + z^2).
    assert "| this checkpoint | 0.500 [0.404, 0.596] | 0.500 [0.404, 0.596] |" in page
    assert "| warm start | 0.000 [0.000, 0.037] | 0.000 [0.000, 0.037] |" in page
    assert "| accepted slca | 0.250 [0.125, 0.375] | 0.250 [0.125, 0.375] |" in page
    assert "| multiple_accuracy | 0.250 | 1.000 | 0.000 | 0.125 |" in page
    other = evaluation.summary(report(0.5, tasks=99), report(0.0), accepted, tables)
    assert "| warm start" not in other and "| accepted" not in other


def test_a_run_mirrors_its_scores_and_hands_its_settings_on(prefect_api: str, scoring: Path) -> None:
    """By the repository's own code, whatever that is."""
    write_json(scoring / evaluation.WARMSTART, {"splits": {"test": {"tasks": 10, "masked": 0, "success": 0.25}}})
    state, artifacts = run(checkpoint="models/slca-0", changes=["evaluate.tasks=10"], profile="smoke", repository=str(scoring))
    assert state.result() == {
        "scores": "reports/checkpoints/slca-0.json",
        "artifacts": ["slca-evaluation-test", "slca-evaluation-unseen-tools", "slca-evaluation-bfcl", "slca-evaluation"],
    }
    assert set(artifacts) == set(state.result()["artifacts"])
    on_test = {row["measure"]: row["warm start"] for row in json.loads(artifacts["slca-evaluation-test"])}
    assert on_test == {"tasks": 10, "masked": 0, "success": 0.25}
    assert artifacts["slca-evaluation"].startswith("# models/slca-0\n")


@pytest.mark.slow
def test_a_checkpoint_is_scored_and_the_pipeline_is_left_alone(
    prefect_api: str, policy: Policy, task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bfcl", "tau2"):
        variable = f"SLCA_{name.upper()}_PYTHON"
        monkeypatch.setenv(variable, os.environ.get(variable, str(ROOT / f".venv-{name}" / "bin" / "python")))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    folder = tmp_path / "elsewhere" / "tiny"
    policy.model.save_pretrained(folder)
    policy.format.tokenizer.save_pretrained(folder)
    (tmp_path / "params.yaml").write_text(to_yaml(Params()))
    for split in ("test", "unseen_tools"):
        tasks = [replace(task, task_id=f"{split}-{number}") for number in range(3)]
        write_tasks(tmp_path / f"data/tasks/{split}.parquet", tasks)
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    limits = ["evaluate.tasks=2", "evaluate.bfcl_limit=1", "evaluate.tau2_limit=1", "rollouts.max_turn_tokens=4"]
    limits.append("evaluate.bfcl_categories=[multiple]")
    state, artifacts = run(checkpoint="elsewhere/tiny", changes=limits, repository=str(tmp_path))
    scores = tmp_path / state.result()["scores"]
    report = read_json(scores)
    assert (report["checkpoint"], report["splits"]["test"]["tasks"], report["bfcl"]["multiple_n"]) == ("elsewhere/tiny", 2, 1)
    rewards = read_rewards(scores.with_suffix(".parquet"))
    assert [reward.task_id for reward in rewards] == ["test-0", "test-1", "unseen_tools-0", "unseen_tools-1"]
    assert {trace.benchmark for trace in read_traces(scores.with_name("tiny-traces.parquet"))} == {"bfcl", "tau2"}
    assert {"slca-evaluation-bfcl", "slca-evaluation-tau2"} <= artifacts.keys()
    made = {path for path in tmp_path.rglob("*") if path.is_file() and ".slca" not in path.parts} - before
    assert {path.parent for path in made} == {scores.parent}

    state, artifacts = run(checkpoint="nowhere", repository=str(tmp_path))
    assert state.is_failed() and "There is no checkpoint nowhere" in (state.message or "") and artifacts == {}
    with pytest.raises(CommandFailed) as failure:
        state.result()
    assert failure.value.status == 2


@pytest.mark.slow
def test_sigterm_to_the_flow_process_ends_the_evaluation(
    prefect_api: str, sleeping_evaluation: Any, wait_for: Callable[..., Any]
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "flows.evaluation", "any", "--repository", str(sleeping_evaluation.path)],
        cwd=ROOT,
        env={**os.environ, "PREFECT_API_URL": prefect_api},
    )
    processes = sleeping_evaluation.processes()
    process.send_signal(signal.SIGTERM)
    sleeping_evaluation.wait_until_gone(processes)
    assert process.wait(timeout=30) != 0
