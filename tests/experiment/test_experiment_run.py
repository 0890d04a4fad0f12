"""The plan `smoke`, run for real: complete, under equal budgets, and the same to the last byte after a kill.

Killed with SIGKILL, which no process can answer: what was finished must be kept, and the rest be made as if nothing had happened.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from scratch import ROOT, kill_group

from slca import params as p
from slca.errors import DataError
from slca.experiment.plan import load
from slca.experiment.run import Kept, kept_runs, report, run
from slca.files import read_json
from slca.tables import read_rewards

pytestmark = pytest.mark.slow

RUNS = {
    *(f"judge-noise-0/{method}-0" for method in ("grpo", "slca", "rltr")),
    *(f"judge-noise-1/{method}-0" for method in ("grpo", "slca")),
    "without-sgls/slca-0",
}


@pytest.fixture(scope="module")
def finished(pipeline: Path, smoke_params: p.Params, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with the finished experiment, made run after run in this process. Read only."""
    root = tmp_path_factory.mktemp("finished") / "root"
    shutil.copytree(pipeline, root)
    run(smoke_params, "smoke", [], None, root)
    return root


def reported(root: Path) -> dict[str, bytes]:
    folder = root / "reports" / "experiment"
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def trained(root: Path) -> dict[str, int]:
    """Finished trainings, with the time at which each came into place."""
    kept = root / ".slca" / "experiment" / "smoke"
    return {folder.parent.relative_to(kept).as_posix(): folder.stat().st_mtime_ns for folder in kept.glob("*/*/training")}


def test_every_run_is_made_and_reported(finished: Path) -> None:
    results = read_json(finished / "reports" / "experiment" / "results.json")
    assert trained(finished).keys() == RUNS
    assert results["runs"] == {"planned": len(RUNS), "finished": len(RUNS), "missing": [], "stopped": {}}
    assert set(results["cells"]["judge-noise-0"]["differences"]) == {"slca", "rltr"}
    assert {"results.md", "runs.csv", "curves.csv", "figures/noise.svg"} <= reported(finished).keys()
    assert list((finished / ".slca" / "work" / "experiment").rglob("fingerprint.json")) == []  # nothing half-made is left


def test_more_tasks_than_there_are_is_refused(pipeline: Path, smoke_params: p.Params, tmp_path: Path) -> None:
    plan = tmp_path / "large.yaml"
    plan.write_text(
        "{title: t, seeds: [0], evaluate: {test: 99, unseen_tools: 1}, cells: [{name: a, title: a, methods: [slca]}]}"
    )
    with pytest.raises(DataError, match=r"holds 12 tasks, but the plan's evaluate\.test asks for 99"):
        run(smoke_params, str(plan), [], None, pipeline)


def test_methods_have_the_same_budget(finished: Path, smoke_params: p.Params) -> None:
    """As many rollouts of as many tasks in each step; and the very same rollouts in the first, before any update."""
    plan = load("smoke", smoke_params)
    for cell in plan.cells:
        for seed in plan.seeds_of(cell):
            curves = [
                pd.read_csv(kept.training / "curve.csv")
                for kept in kept_runs(plan, smoke_params, finished)
                if kept.cell == cell and kept.run and kept.run.seed == seed
            ]
            steps = [curve[["step", "tasks", "rollouts"]] for curve in curves]
            assert all(one.equals(steps[0]) for one in steps) and len(steps[0]) == 2
            assert (steps[0]["tasks"] == 2).all() and (steps[0]["rollouts"] == 8).all()
            before = [curve.loc[0, ["sampled_tokens", "success", "process", "summary", "call_rate"]] for curve in curves]
            assert all(one.equals(before[0]) for one in before)


def test_slca_s_credit_is_not_contaminated_in_training(finished: Path) -> None:
    runs = pd.read_csv(finished / "reports" / "experiment" / "runs.csv")
    shares = runs[["contamination_tool", "contamination_summary"]]
    assert ((shares >= 0) & (shares <= 1)).all(axis=None)
    assert (shares[runs["method"] == "slca"] == 0).all(axis=None)


def test_a_run_that_stops_itself_is_reported_with_its_reason(pipeline: Path, smoke_params: p.Params, tmp_path: Path) -> None:
    root, plan = tmp_path / "root", tmp_path / "mute.yaml"
    shutil.copytree(pipeline, root)
    plan.write_text(
        """
        title: a policy that ought to call in every rollout, and does not
        seeds: [0]
        set: {train: {steps: 12, tasks_per_step: 1, min_call_rate: 1.0}, rollouts: {group_size: 2}}
        evaluate: {test: 2, unseen_tools: 1}
        cells: [{name: mute, title: mute, methods: [slca]}]
        """
    )
    run(smoke_params, str(plan), [], None, root)
    runs = read_json(root / "reports" / "experiment" / "results.json")["runs"]
    assert (runs["finished"], runs["missing"]) == (0, [])
    assert "slca-0 stopped at step 10: call_rate was for 10 steps in a row below" in runs["stopped"]["mute/slca-0"]
    assert runs["stopped"]["mute/slca-0"] in (root / "reports" / "experiment" / "results.md").read_text()


def test_all_runs_are_evaluated_on_the_same_tasks(finished: Path, smoke_params: p.Params) -> None:
    tables = {tuple(r.task_id for r in read_rewards(file)) for file in finished.rglob("evaluation/rewards.parquet")}
    assert len(tables) == 1 and len(tables.pop()) == 8 + 4


def test_a_second_run_makes_nothing_again(finished: Path, smoke_params: p.Params, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(finished, root)
    before = trained(root)
    run(smoke_params, "smoke", [], None, root)
    assert trained(root) == before and reported(root) == reported(finished)


def test_what_a_run_depends_on_makes_it_stale(finished: Path, smoke_params: p.Params) -> None:
    plan = load("smoke", smoke_params)
    kept = next(one for one in kept_runs(plan, smoke_params, finished) if one.name == "judge-noise-1/slca-0")

    def under(**train: float) -> Kept:
        changed = p.changed(smoke_params, {"train": train}, "test")
        return Kept(load("smoke", changed), changed, finished, kept.cell, kept.run)

    assert kept.is_made() and under().is_made()
    assert not under(learning_rate=1e-3).is_trained()


def test_a_cut_experiment_reports_what_is_missing(finished: Path, smoke_params: p.Params, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(finished, root)
    shutil.rmtree(root / ".slca" / "experiment" / "smoke" / "without-sgls")
    run(smoke_params, "smoke", [], 0.0, root)  # no time for another run
    results = read_json(root / "reports" / "experiment" / "results.json")
    assert results["runs"]["missing"] == ["without-sgls/slca-0"]
    assert "slca-0" in (root / "reports" / "experiment" / "results.md").read_text().split("## What is missing")[1]
    shutil.rmtree(root / ".slca" / "experiment" / "smoke" / "warmstart")
    with pytest.raises(DataError, match="Nothing is evaluated yet"):
        report(load("smoke", smoke_params), smoke_params, root)


def test_a_killed_experiment_continues_to_the_same_bytes(
    pipeline: Path, finished: Path, smoke_params: p.Params, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    shutil.copytree(pipeline, root)
    two = p.changed(smoke_params, {"execution": {"processes": 2}}, "test")
    (root / "params.yaml").write_text(p.to_yaml(two))
    command = [sys.executable, "-m", "slca", "experiment", "--plan", "smoke"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(command, cwd=root, env=environment, stdout=log, stderr=log, start_new_session=True) as process,
    ):
        deadline = time.monotonic() + 300
        while not trained(root) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert process.poll() is None, (tmp_path / "log").read_text()
        kill_group(process)
    kept = trained(root)
    assert 0 < len(kept) < len(RUNS)
    assert not (root / "reports" / "experiment").exists()

    run(smoke_params, "smoke", [], None, root)
    after = trained(root)
    assert {name: after[name] for name in kept} == kept  # not made again
    assert reported(root) == reported(finished)
