"""The `rollouts` stage: the warm-start policy's groups, written once.

They calibrate the rewards, show how contaminated credit would be, and are the reference "before". A shard is a file and the
unit of resuming: it appears by rename when it is whole, and its content depends on its tasks alone, so a killed run
continues and yields the same files whatever was done before.
"""

from collections.abc import Sequence
from pathlib import Path

from slca import params as p
from slca.bars import Bars
from slca.files import digest
from slca.policy.model import load_policy, prepare_torch
from slca.records import Task
from slca.rollouts.engine import Engine, Request
from slca.side_by_side import beside
from slca.tables import read_tasks, write_rollouts
from slca.work import fingerprint, open_work, publish


def run(params: p.Params, root: Path = Path(".")) -> None:
    """models/warmstart and data/tasks/train.parquet -> data/rollouts/part-*.parquet."""
    inputs = [root / "models" / "warmstart", root / "data" / "tasks" / "train.parquet"]
    mark = fingerprint([params.rollouts.model_dump(), params.simulator.model_dump(), params.execution.threads], inputs)
    work = open_work(root, "rollouts", mark)
    count = -(-params.rollouts.tasks // params.rollouts.shard_tasks)
    processes = params.execution.processes
    mine, others = range(0, count, processes), [range(first, count, processes) for first in range(1, min(processes, count))]
    with beside(write_shards, [(params, root, work, list(shards), False) for shards in others]):
        write_shards(params, root, work, list(mine), True)
    # What a process beside this one left undone is done here, where its failure has a voice.
    write_shards(params, root, work, list(range(count)), True)
    publish(work, {"shards": root / "data" / "rollouts"})


def write_shards(params: p.Params, root: Path, work: Path, shards: Sequence[int], show: bool) -> None:
    """Make the shards that are not there yet."""
    missing = [shard for shard in shards if not shard_file(work, shard).exists()]
    if not missing:
        return
    prepare_torch(params.execution.threads)
    engine = Engine(load_policy(root / "models" / "warmstart"), params.rollouts, params.simulator, params.rollouts.seed)
    tasks = choose_tasks(read_tasks(root / "data" / "tasks" / "train.parquet"), params.rollouts)
    size = params.rollouts.shard_tasks
    with Bars() as bars:
        advance = bars.add("rollouts", len(missing) * size * params.rollouts.group_size) if show else None
        for shard in missing:
            part = tasks[shard * size : (shard + 1) * size]
            requests = [Request(task, member) for task in part for member in range(params.rollouts.group_size)]
            write_rollouts(shard_file(work, shard), engine.run(requests, advance))


def choose_tasks(tasks: Sequence[Task], rollouts: p.Rollouts) -> list[Task]:
    """A sample of the tasks that depends on the seed and on task ids, not on their order in the table."""
    return sorted(tasks, key=lambda task: digest(rollouts.seed, task.task_id))[: rollouts.tasks]


def shard_file(work: Path, shard: int) -> Path:
    return work / "shards" / f"part-{shard:05d}.parquet"
