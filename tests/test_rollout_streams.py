"""Many rollouts: memory does not grow with their number, and a run that is killed loses nothing and doubles nothing."""

import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from slca.files import file_digest
from slca.params import Execution, Params, Rollouts
from slca.policy.model import Policy
from slca.records import Task
from slca.rollouts import stage
from slca.tables import read_rollouts, write_tasks

pytestmark = pytest.mark.slow
TESTS = Path(__file__).parent


def stream(folder: Path, count: int) -> list[int]:
    """MiB at the most when the program began, had written, had read, in a process of its own; and how many it has read."""
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}
    command = [sys.executable, str(TESTS / "rollout_streams.py"), str(folder), str(count)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [int(number) for number in done.stdout.split()]


def test_a_hundred_thousand_rollouts_take_the_memory_of_ten_thousand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few, many = stream(tmp_path / "few", 10_000), stream(tmp_path / "many", 100_000)
    size = (tmp_path / "many" / "part-00000.parquet").stat().st_size / 2**20
    with capsys.disabled():
        print(
            f"\nMiB at the start, after writing, after reading: 10,000: {few[:3]}; 100,000: {many[:3]}, a file of {size:.1f} MiB"
        )
    assert (few[3], many[3]) == (10_000, 100_000)
    assert many[2] - few[2] < 64  # the ids, which are kept to find doubled ones, and noise


def test_a_stage_killed_ten_times_at_random_loses_nothing_and_doubles_nothing(policy: Policy, task: Task, tmp_path: Path) -> None:
    """Real SIGKILLs, whatever the stage is doing; then the files are those of a run that nothing disturbed."""
    settings = Rollouts(tasks=20, group_size=2, shard_tasks=1, max_turns=3, max_turn_tokens=24)
    params = Params(rollouts=settings, execution=Execution(processes=1))
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    policy.model.save_pretrained(calm / "models" / "warmstart")
    policy.format.tokenizer.save_pretrained(calm / "models" / "warmstart")
    tasks = [replace(task, task_id=f"test-{i}", question=f"Weather in Oslo on day {i}?") for i in range(20)]
    write_tasks(calm / "data" / "tasks" / "train.parquet", tasks)
    shutil.copytree(calm, killed)
    start = time.monotonic()
    stage.run(params, calm)
    seconds = time.monotonic() - start
    rng = random.Random(0)
    kills = 0
    while kills < 10:
        # A fork has everything imported, so that kills meet the stage and not the start of Python.
        process = multiprocessing.get_context("fork").Process(target=stage.run, args=(params, killed))
        process.start()
        process.join(rng.uniform(0.05, 0.3) * seconds)
        assert process.pid and process.exitcode in (None, 0)
        if process.exitcode is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.join()
        if (killed / "data" / "rollouts").exists():
            shutil.rmtree(killed / "data" / "rollouts")  # it was done: once more
    stage.run(params, killed)
    assert digests(killed) == digests(calm)
    ids = [rollout.rollout_id for rollout in read_rollouts(killed / "data" / "rollouts")]
    assert len(ids) == len(set(ids)) == 40


def digests(root: Path) -> dict[str, str]:
    return {file.name: file_digest(file) for file in sorted((root / "data" / "rollouts").iterdir())}
