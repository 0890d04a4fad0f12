"""A run of several processes, started by the stage: the same records as one process, stops and kills that reach everybody."""

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file
from tiny_run import RUN, make

from slca import params as p
from slca.errors import ParamsError, RunStopped, SlcaError
from slca.files import write_text
from slca.tables import read_rollouts
from slca.training import launch, stage
from slca.training.launch import config_file, processes_of, read_config

LAUNCHED: dict[str, dict[str, object]] = {"execution": {"launcher": "accelerate", "accelerate_config": "two_cpus"}}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    make(root)
    return root


def copy(project: Path, place: Path) -> Path:
    return Path(shutil.copytree(project, place))


@pytest.mark.slow
@pytest.mark.parametrize("mini_batch", [0, 2])
def test_two_processes_train_as_one_and_the_first_alone_writes(project: Path, tmp_path: Path, mini_batch: int) -> None:
    """Groups span both processes. Weights agree where a step is one optimizer step: TRL deals its rollouts to several of them by
    chance, in each process for itself."""
    train = {"mini_batch": mini_batch, "micro_batch": 2, "kl": 0.01, "warmup_steps": 0}
    run = p.changed(RUN, {"train": train}, "test")
    one, two = copy(project, tmp_path / "one"), copy(project, tmp_path / "two")
    stage.run(run, "slca", 0, one)
    stage.run(p.changed(run, LAUNCHED, "test"), "slca", 0, two)
    for table in ("rollouts", "rewards", "credits"):
        files = [sorted((root / "data/training/slca-0" / table).iterdir()) for root in (one, two)]
        assert [[file.name for file in part] for part in files] == [["part-00001.parquet", "part-00002.parquet"]] * 2
        if table != "rollouts":  # log-probs are rounded by the size of a batch
            assert files[0][0].read_bytes() == files[1][0].read_bytes(), table
    rollouts = [list(read_rollouts(root / "data/training/slca-0/rollouts")) for root in (one, two)]
    assert [r.rollout_id for r in rollouts[0]] == [r.rollout_id for r in rollouts[1]] and len(rollouts[0]) == 32
    bare = [[replace(rollout, logprobs=()) for rollout in part[:16]] for part in rollouts]
    assert bare[0] == bare[1]
    curves = [(root / "data/training/slca-0/curve.csv").read_text().splitlines() for root in (one, two)]
    assert len(curves[0]) == len(curves[1]) == 3
    weights = [load_file(root / "models/slca-0/model.safetensors") for root in (one, two)]
    start = load_file(one / "models/warmstart/model.safetensors")
    assert weights[0].keys() == weights[1].keys() == start.keys()
    for name, value in weights[0].items():
        assert not torch.equal(value, start[name])
        if not mini_batch:  # gradients are summed in another order, which AdamW makes the most of where they are nearly 0
            assert (weights[1][name] - value).norm() < 0.01 * (value - start[name]).norm(), name


@pytest.mark.slow
def test_a_run_that_stops_itself_says_why_whatever_launched_it(project: Path, tmp_path: Path) -> None:
    root = copy(project, tmp_path / "stopped")
    stopping = {**LAUNCHED, "train": {"steps": 12, "min_call_rate": 1.0}, "rollouts": {"max_turn_tokens": 8, "max_turns": 1}}
    with pytest.raises(RunStopped, match=r"slca-0 stopped at step 10: call_rate .* below train\.min_call_rate = 1"):
        stage.run(p.changed(RUN, stopping, "test"), "slca", 0, root)
    assert not (root / "models" / "slca-0").exists()


@pytest.mark.slow
def test_killing_the_stage_ends_its_processes_and_the_next_run_goes_on(project: Path, tmp_path: Path) -> None:
    root = copy(project, tmp_path / "killed")
    params = p.changed(RUN, {**LAUNCHED, "train": {"steps": 4}}, "test")
    write_text(root / "params.yaml", p.to_yaml(params))
    command = [sys.executable, "-m", "slca", "train", "--method", "slca", "--seed", "0"]
    process = subprocess.Popen(command, cwd=root, stderr=subprocess.DEVNULL, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    try:
        saved = root / ".slca/work/train/slca-0/checkpoints"
        _wait(lambda: list(saved.glob("checkpoint-*/complete")))
        below = psutil.Process(process.pid).children(recursive=True)
        assert len(below) >= 3  # the launcher and two that train
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    _wait(lambda: not [one for one in below if one.is_running() and one.status() != psutil.STATUS_ZOMBIE])
    assert not (root / "models" / "slca-0").exists()
    before = (saved.parent / "steps" / "00001.json").stat().st_mtime_ns
    step = saved.parent / "steps" / "00001.json"
    work = stage.train(params, stage.Run("slca", 0), root)
    assert step.stat().st_mtime_ns == before and (work / "model" / "model.safetensors").exists()
    assert len((work / "records" / "curve.csv").read_text().splitlines()) == 5


def _wait(condition, seconds: float = 240.0) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_processes_that_fail_are_told_of(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    params = p.changed(RUN, LAUNCHED, "test")
    with pytest.raises(SlcaError, match="trained slca-0 ended with status 1"):
        launch.launch(params, "slca", 0, project, tmp_path)


def test_a_foreign_launcher_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ParamsError, match=r"execution\.launcher: accelerate"):
        stage.run(RUN, "slca", 0, project)


def test_a_configuration_is_a_file_or_a_name_and_is_checked(tmp_path: Path) -> None:
    def execution(name: str) -> p.Execution:
        return p.Execution(launcher="accelerate", accelerate_config=name)

    assert processes_of(p.of_profile("qwen7b"), tmp_path) == 8
    assert read_config(execution("two_cpus"), tmp_path)["num_processes"] == 2
    own = tmp_path / "own.yaml"
    for text, told in [
        ("num_processes: 0", "num_processes is 0"),
        ("[", "not valid YAML"),
        ("{num_processes: 2, num_machines: 2}", "one machine"),
    ]:
        own.write_text(text)
        assert config_file(execution("own.yaml"), tmp_path) == own
        with pytest.raises(ParamsError, match=told):
            read_config(execution("own.yaml"), tmp_path)
    with pytest.raises(ParamsError, match=r"'none' is no file; .*fsdp_8gpus, two_cpus"):
        config_file(execution("none"), tmp_path)
    with pytest.raises(ValueError, match="launcher accelerate needs accelerate_config"):
        p.Execution(launcher="accelerate")
