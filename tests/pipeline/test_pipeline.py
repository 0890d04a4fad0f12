"""The pipeline as a user runs it, at the size of the smoke profile: complete, repeatable to the last byte, and hard to break.

Killed stages are killed with SIGKILL, which no process can answer: what they had finished must be enough to continue.
"""

import time
from collections import Counter
from collections.abc import Callable

import numpy as np
import psutil
import pytest
import yaml
from scratch import DVC, Repository, kill_group, stages_run, times

from slca import params as p
from slca.credit import METHODS, Settings, groups_from_rewards, spread
from slca.files import file_digest, read_json
from slca.hierr import score
from slca.records import Reward, Rollout, Segment
from slca.tables import read_credits, read_rewards, read_rollouts, read_tasks

pytestmark = pytest.mark.slow

METHOD_NAMES, SEEDS = ("grpo", "slca"), (0, 1)
RUNS = [f"{method}-{seed}" for method in METHOD_NAMES for seed in SEEDS]
STEPS = range(1, 5)
EVALUATED = {"evaluate_warmstart", *(f"evaluate@{run}" for run in RUNS)}
STAGES = {
    "schemas",
    "tasks",
    "base",
    "warmstart",
    "rollouts",
    "rewards",
    "inspect",
    *(f"train@{run}" for run in RUNS),
    *EVALUATED,
    "report",
}


# What a run leaves


def test_every_stage_leaves_its_outputs(finished: Repository) -> None:
    assert set(finished.lock()["stages"]) == STAGES
    missing = [path for path in finished.outputs() if not (any(path.iterdir()) if path.is_dir() else path.stat().st_size)]
    assert not missing
    figures = [plot for plot in yaml.safe_load((finished.path / "dvc.yaml").read_text())["plots"] if isinstance(plot, str)]
    assert figures and all((finished.path / figure).stat().st_size for figure in figures)
    assert not list((finished.path / ".slca" / "work").rglob("fingerprint.json"))  # no unfinished work
    models = [file_digest(finished.path / "models" / name / "model.safetensors") for name in ("warmstart", *RUNS)]
    assert len(set(models)) == len(models)  # every run has learned something, and something else


def test_the_report_holds_every_method_split_and_reference(finished: Repository) -> None:
    results = read_json(finished.path / "reports" / "results.json")
    assert results["profile"] == "smoke"
    assert {method: set(splits) for method, splits in results["methods"].items()} == {
        method: {"test", "unseen_tools"} for method in ("warmstart", *METHOD_NAMES)
    }
    assert results["methods"]["slca"]["test"]["success"]["seeds"] == len(SEEDS)
    categories = results["bfcl"]["categories"]
    # Whoever answers with the gold calls is always right, whoever calls nothing only where that is asked for.
    assert {name: (entry["gold"], entry["do_nothing"]) for name, entry in categories.items()} == {
        "simple_python": (1.0, 0.0),
        "multiple": (1.0, 0.0),
        "parallel": (1.0, 0.0),
        "irrelevance": (1.0, 1.0),
        "multi_turn_base": (1.0, 0.0),
    }
    assert all(set(entry["scores"]) == {"warmstart", *METHOD_NAMES} for entry in categories.values())
    page = (finished.path / "reports" / "results.md").read_text()
    assert all(method in page for method in METHOD_NAMES)


def records(repository: Repository, run: str, step: int) -> tuple[list[Rollout], list[Reward], dict[str, list[float]]]:
    folder, part = repository.path / "data" / "training" / run, f"part-{step:05d}.parquet"
    rollouts = list(read_rollouts(folder / "rollouts" / part))
    return rollouts, read_rewards(folder / "rewards" / part), read_credits(folder / "credits" / part)


@pytest.mark.parametrize("run", RUNS)
def test_rewards_and_credits_follow_from_the_stored_rollouts(finished: Repository, run: str) -> None:
    params = p.load(finished.path / "params.yaml")
    rule, settings = METHODS[run.split("-")[0]], Settings.from_params(params.train)
    tasks = {task.task_id: task for task in read_tasks(finished.path / "data" / "tasks" / "train.parquet")}
    credited = set()
    for step in STEPS:
        rollouts, rewards, credits = records(finished, run, step)
        ids = [rollout.rollout_id for rollout in rollouts]
        assert len(ids) == params.train.tasks_per_step * params.rollouts.group_size
        assert [reward.rollout_id for reward in rewards] == list(credits) == ids
        assert [score(tasks[rollout.task_id], rollout, params.rewards) for rollout in rollouts] == rewards
        labels = [rollout.labels for rollout in rollouts]
        expected = spread(rule(groups_from_rewards(rewards, labels), settings), labels, ids)
        for rollout, advantages in zip(rollouts, expected, strict=True):
            stored = np.array(credits[rollout.rollout_id], dtype=np.float32)
            assert len(stored) == len(rollout.completion_ids) == len(rollout.labels)
            assert np.array_equal(stored, advantages[: len(stored)])
            credited |= {label for label, advantage in zip(rollout.labels, stored, strict=True) if advantage}
    assert credited == {Segment.TOOL, Segment.SUMMARY}  # both segments were taught something; ENV tokens never are


@pytest.mark.parametrize("seed", SEEDS)
def test_methods_differ_in_nothing_but_credit(finished: Repository, seed: int) -> None:
    """The same tasks at every step; the same rollouts and rewards at the first, before any update."""
    for step in STEPS:
        tasks = [
            Counter(rollout.task_id for rollout in records(finished, f"{method}-{seed}", step)[0]) for method in METHOD_NAMES
        ]
        assert tasks[0] == tasks[1] and set(tasks[0].values()) == {4}  # whole groups
    (grpo, grpo_rewards, grpo_credits), (slca, slca_rewards, slca_credits) = (
        records(finished, f"{method}-{seed}", 1) for method in METHOD_NAMES
    )
    assert [rollout.completion_ids for rollout in grpo] == [rollout.completion_ids for rollout in slca]
    assert grpo_rewards == slca_rewards
    assert grpo_credits != slca_credits


# Running it again


def test_a_second_run_does_nothing(copy: Repository, finished: Repository) -> None:
    output = copy.dvc("repro")
    assert stages_run(output) == []
    assert "Data and pipelines are up to date." in output
    assert (copy.path / "dvc.lock").read_bytes() == (finished.path / "dvc.lock").read_bytes()


def test_running_everything_again_gives_the_same_bytes(copy: Repository, finished: Repository) -> None:
    """dvc.lock holds a digest of every output. Here each training run is alone; the first time two went side by side."""
    output = copy.dvc("repro", "--force")
    assert set(stages_run(output)) == STAGES
    assert (copy.path / "dvc.lock").read_bytes() == (finished.path / "dvc.lock").read_bytes()


# Killed and run again


def assert_nothing_runs(repository: Repository) -> None:
    repository.wait_for("the end of all processes", lambda: not repository.processes(), 60)


def test_a_killed_warm_start_continues(copy: Repository, finished: Repository) -> None:
    copy.forget("warmstart")
    checkpoints = copy.path / ".slca" / "work" / "warmstart" / "checkpoints"

    def complete() -> set[int]:
        return {int(path.parent.name.removeprefix("checkpoint-")) for path in checkpoints.glob("checkpoint-*/complete")}

    with copy.running(*DVC, "repro") as dvc:
        copy.wait_for("a third checkpoint", lambda: max(complete(), default=0) >= 15)
        kill_group(dvc)
    assert_nothing_runs(copy)
    kept = complete()
    assert not (copy.path / "models" / "warmstart").exists()

    written = set()
    with copy.running(*DVC, "repro") as dvc:
        while dvc.poll() is None:
            written |= complete() - kept
            time.sleep(0.01)
    assert dvc.returncode == 0, copy.output()
    assert stages_run(copy.output()) == ["warmstart"]
    assert min(written) == max(kept) + 5  # no earlier step was made anew
    assert copy.lock() == finished.lock()
    assert not checkpoints.exists()


def test_killed_rollouts_continue(copy: Repository, finished: Repository) -> None:
    copy.forget("rollouts")
    shards = copy.path / ".slca" / "work" / "rollouts" / "shards"
    with copy.running(*DVC, "repro") as dvc:
        copy.wait_for("a first shard", lambda: times(shards))
        kill_group(dvc)
    assert_nothing_runs(copy)
    kept = times(shards)
    assert 0 < len(kept) < len(times(finished.path / "data" / "rollouts"))
    assert not (copy.path / "data" / "rollouts").exists()

    assert stages_run(copy.dvc("repro")) == ["rollouts"]
    assert kept.items() <= times(copy.path / "data" / "rollouts").items()  # not made anew
    assert copy.lock() == finished.lock()
    assert not shards.exists()


@pytest.mark.parametrize("victim", ["everything", "training"])
def test_a_killed_training_run_continues(copy: Repository, finished: Repository, victim: str) -> None:
    """Either the whole process group is killed, or the training process alone, beside which another run is trained."""
    stages = ["train@grpo-0", "train@slca-0"]
    copy.forget(*stages)
    work = copy.path / ".slca" / "work" / "train" / "grpo-0"
    with copy.running(*DVC, "repro") as dvc:
        copy.wait_for("a complete checkpoint", lambda: any(work.glob("checkpoints/checkpoint-*/complete")))
        if victim == "everything":
            kill_group(dvc)
        else:
            stage = next(child for child in psutil.Process(dvc.pid).children(recursive=True) if "train" in child.cmdline())
            stage.kill()
            assert dvc.wait(60) != 0
            assert "failed to reproduce 'train@grpo-0'" in copy.output()
    assert_nothing_runs(copy)
    checkpoints = sorted(path.parent.name for path in work.glob("checkpoints/checkpoint-*/complete"))
    assert checkpoints == ["checkpoint-2"]  # of four steps
    assert not (work.parent / "slca-0" / "records" / "curve.csv").exists()  # what ran beside was not left to finish
    assert not (copy.path / "models" / "grpo-0").exists() and not (copy.path / "data" / "training" / "grpo-0").exists()
    done = {name: time for name, time in times(work / "records").items() if name.endswith(("00001.parquet", "00002.parquet"))}
    assert len(done) == 2 * len(("rollouts", "rewards", "credits"))

    assert stages_run(copy.dvc("repro")) == stages
    after = times(copy.path / "data" / "training" / "grpo-0")
    assert {name: after[name] for name in done} == done  # the steps before the checkpoint were not made anew
    assert copy.lock() == finished.lock()
    assert not work.exists()


# What a change makes stale


def stale(repository: Repository) -> set[str]:
    """The stages that ``dvc repro`` would run if every stage that runs changed its outputs."""
    return set(stages_run(repository.dvc("repro", "--dry", "--force-downstream")))


def set_to(section: str, name: str, value: object) -> Callable[[Repository], None]:
    return lambda repository: repository.set_parameter(section, name, value)


def reword_report(repository: Repository) -> None:
    module = repository.path / "slca" / "report" / "stage.py"
    text = module.read_text()
    assert text.startswith('"""')
    module.write_text('"""Reworded. ' + text[3:])


def leave_half_written(repository: Repository) -> None:
    """What a kill while a file takes its place leaves beside it: here in folders that the report depends on."""
    for name in ("data/training/.grpo-0.tmp-1", "data/evaluation/.grpo-0.parquet.tmp-1", "reports/evaluation/.grpo-0.json.tmp-1"):
        (repository.path / name).write_text("half")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(
            set_to("train", "learning_rate", 0.0004),
            {*(f"{stage}@{run}" for stage in ("train", "evaluate") for run in RUNS), "report"},
            id="learning rate",
        ),
        pytest.param(
            set_to("train", "seeds", [0, 1, 2]),
            {*(f"{stage}@{method}-2" for stage in ("train", "evaluate") for method in METHOD_NAMES), "report"},
            id="another seed",
        ),
        pytest.param(set_to("evaluate", "bfcl_limit", 5), {*EVALUATED, "report"}, id="benchmark size"),
        pytest.param(set_to("execution", "processes", 1), set(), id="processes"),
        pytest.param(set_to("train", "checkpoint_steps", 1), {"report"}, id="checkpoint interval"),
        pytest.param(leave_half_written, set(), id="half-written files"),
        pytest.param(reword_report, {"report"}, id="docstring of the report"),
    ],
)
def test_a_change_makes_stale_what_depends_on_it(
    copy: Repository, change: Callable[[Repository], None], expected: set[str]
) -> None:
    change(copy)
    assert stale(copy) == expected
