"""Which runs are trained beside a stage's own: those of the matrix that nobody has made yet."""

from contextlib import contextmanager
from pathlib import Path

import pytest

from slca import params as p
from slca.files import write_json, write_text
from slca.training import stage
from slca.training.runs import Run
from slca.work import open_work


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """Trainings that a stage starts, its own first; training is replaced by writing the outputs."""
    write_text(tmp_path / "data" / "tasks" / "train.parquet", "tasks")
    write_text(tmp_path / "models" / "warmstart" / "model.safetensors", "weights")
    started: list[list[str]] = []

    def train(params: p.Params, run: Run, root: Path, show: bool = True) -> Path:
        work = open_work(root, run.work_name, run.fingerprint(params, root))
        if not run.curve(root).exists():
            started[-1].append(run.name)
            write_text(work / "model" / "model.safetensors", run.name)
            write_text(run.curve(root), "step\n")
        return work

    @contextmanager
    def beside(function, calls):
        started.append([])
        for call in calls:
            train(*call)
        yield

    monkeypatch.setattr(stage, "train", train)
    monkeypatch.setattr(stage, "beside", beside)
    return started


def test_two_processes_halve_the_matrix(trained: list[list[str]], tmp_path: Path) -> None:
    """DVC runs all seeds of a method, then the next method: each stage of the first makes one of the second's."""
    params = p.Params(train=p.Train(methods=("grpo", "slca"), seeds=(0, 1, 2)))
    for method in ("grpo", "slca"):
        for seed in (0, 1, 2):
            stage.run(params, method, seed, tmp_path)
            assert (tmp_path / "models" / f"{method}-{seed}" / "model.safetensors").read_text() == f"{method}-{seed}"
    assert [sorted(names) for names in trained] == [["grpo-0", "slca-0"], ["grpo-1", "slca-1"], ["grpo-2", "slca-2"], [], [], []]


def test_one_process_trains_nothing_beside(trained: list[list[str]], tmp_path: Path) -> None:
    params = p.Params(execution=p.Execution(processes=1))
    stage.run(params, "grpo", 0, tmp_path)
    stage.run(params, "slca", 0, tmp_path)
    assert trained == [["grpo-0"], ["slca-0"]]


def test_what_was_collected_is_not_made_again_unless_its_parameters_changed(trained: list[list[str]], tmp_path: Path) -> None:
    params = p.Params(train=p.Train(seeds=(0,)))
    stage.run(params, "grpo", 0, tmp_path)
    stage.run(params, "slca", 0, tmp_path)
    stage.run(params, "grpo", 0, tmp_path)
    assert trained[-1] == ["grpo-0"]
    changed = p.Params(train=p.Train(seeds=(0,), steps=7))
    stage.run(changed, "grpo", 0, tmp_path)
    assert sorted(trained[-1]) == ["grpo-0", "slca-0"]


def test_a_damaged_mark_counts_as_none(trained: list[list[str]], tmp_path: Path) -> None:
    params = p.Params(train=p.Train(seeds=(0,)))
    stage.run(params, "grpo", 0, tmp_path)
    write_json(tmp_path / ".slca" / "work" / "train" / "slca-0" / "fingerprint.json", "other")
    stage.run(params, "slca", 0, tmp_path)
    assert trained[-1] == ["slca-0"]
