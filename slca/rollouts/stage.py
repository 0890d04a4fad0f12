"""The `rollouts` stage: the warm-start policy's groups, written once.

They calibrate the rewards, show how contaminated credit would be, and are the reference "before". A shard is a file and the
unit of resuming: it appears by rename when it is whole, and its content depends on its tasks alone, so a killed run
continues and yields the same files whatever was done before, and whoever made them. The manifest, written last, names them all.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from slca import params as p
from slca.bars import Bars
from slca.files import digest
from slca.policy.model import load_policy, prepare_torch
from slca.records import Task
from slca.rollouts.engine import Engine, Request
from slca.side_by_side import beside
from slca.tables import read_tasks, write_manifest, write_rollouts
from slca.work import fingerprint, open_work, publish, work_folder

log = logging.getLogger(__name__)

_NAME = "rollouts"


def run(params: p.Params, root: Path = Path(".")) -> None:
    """models/warmstart and data/tasks/train.parquet -> data/rollouts/part-*.parquet and manifest.json."""
    inputs = [root / "models" / "warmstart", root / "data" / "tasks" / "train.parquet"]
    mark = fingerprint([params.rollouts.model_dump(), params.simulator.model_dump(), params.execution.threads], inputs)
    work = open_work(root, _NAME, mark)
    count = -(-params.rollouts.tasks // params.rollouts.shard_tasks)
    if params.execution.runner == "local":
        _make_beside(params, root, count)
    else:
        from flows.shards import over_shards

        over_shards("slca.rollouts.stage:make_shard", params, root, _missing(work, range(count)))
    write_manifest(work / "shards")
    publish(work, {"shards": root / "data" / "rollouts"})


def make_shard(params: p.Params, root: Path, shard: int) -> None:
    """Make one shard, in whatever process shares ``root`` with the stage, which holds the work folder meanwhile."""
    make_shards(params, root, [shard], False)


def make_shards(params: p.Params, root: Path, shards: Sequence[int], show: bool) -> None:
    """Make the shards that are not there yet."""
    work = work_folder(root, _NAME)
    missing = _missing(work, shards)
    if not missing:
        return
    prepare_torch(params.execution.threads)
    policy = load_policy(root / "models" / "warmstart")
    engine = Engine(policy, params.rollouts, params.simulator, params.rollouts.seed)
    tasks = choose_tasks(read_tasks(root / "data" / "tasks" / "train.parquet"), params.rollouts)
    size = params.rollouts.shard_tasks
    with Bars() as bars:
        advance = bars.add("rollouts", len(missing) * size * params.rollouts.group_size) if show else None
        for shard in missing:
            part = tasks[shard * size : (shard + 1) * size]
            requests = [Request(task, member) for task in part for member in range(params.rollouts.group_size)]
            write_rollouts(shard_file(work, shard), engine.run(requests, advance))
    if engine.broken:
        log.warning("%d turns broke the prefix: the chat template renders them otherwise than they were sampled.", engine.broken)


def choose_tasks(tasks: Sequence[Task], rollouts: p.Rollouts) -> list[Task]:
    """A sample of the tasks that depends on the seed and on task ids, not on their order in the table."""
    return sorted(tasks, key=lambda task: digest(rollouts.seed, task.task_id))[: rollouts.tasks]


def shard_file(work: Path, shard: int) -> Path:
    return work / "shards" / f"part-{shard:05d}.parquet"


def _make_beside(params: p.Params, root: Path, count: int) -> None:
    """All shards, in ``execution.processes`` processes of this machine."""
    processes = params.execution.processes
    mine, others = range(0, count, processes), [range(first, count, processes) for first in range(1, min(processes, count))]
    with beside(make_shards, [(params, root, list(shards), False) for shards in others]):
        make_shards(params, root, list(mine), True)
    # What a process beside this one left undone is done here, where its failure has a voice.
    make_shards(params, root, list(range(count)), True)


def _missing(work: Path, shards: Sequence[int]) -> list[int]:
    return [shard for shard in shards if not shard_file(work, shard).exists()]
