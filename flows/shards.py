"""The shards of a stage as a Prefect flow: one task per shard, on threads of this process or on a Dask cluster.

The one place where a stage starts a flow: with ``execution.runner`` set, it hands over the function that makes a shard, by name,
and the numbers of the shards that are missing. A shard is resumable by itself, since its file appears when it is whole; a shard
that fails fails the flow, once the others have ended, with its own error.

Dask's workers need this project, and its folder under the same path. ``execution.dask_address`` names a scheduler; without one,
a local cluster of ``execution.processes`` workers is started for the run.
"""

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.futures import wait
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from slca import params as p
from slca.errors import MissingDependency


def over_shards(function: str, params: p.Params, root: Path, shards: Sequence[int]) -> None:
    """Call ``function``, "module:name" of a (params, root, shard) -> None, for every shard; raises what a failing one raised."""
    execution = params.execution
    run = make_all.with_options(task_runner=RUNNERS[execution.runner](execution))
    run(function, params.model_dump_json(), str(root.resolve()), list(shards))


@task(task_run_name="shard {shard}", cache_policy=NO_CACHE, retries=0, persist_result=False)
def make_one(function: str, params: str, root: str, shard: int) -> None:
    module, name = function.split(":")
    make: Callable[[p.Params, Path, int], None] = getattr(importlib.import_module(module), name)
    make(p.Params.model_validate_json(params), Path(root), shard)


@flow(name="slca-shards", retries=0, persist_result=False)
def make_all(function: str, params: str, root: str, shards: list[int]) -> None:
    """All shards; parameters are texts and numbers, never frames or models."""
    futures = [make_one.submit(function, params, root, shard) for shard in shards]
    wait(futures)
    for future in futures:
        future.result()


def _threads(execution: p.Execution) -> TaskRunner[Any]:
    return ThreadPoolTaskRunner(max_workers=execution.processes)


def _dask(execution: p.Execution) -> TaskRunner[Any]:
    try:
        from prefect_dask.task_runners import DaskTaskRunner
    except ImportError:
        raise MissingDependency("execution.runner is dask, which needs the extra 'dask': pip install 'slca[dask]'.") from None
    if execution.dask_address:
        return DaskTaskRunner(address=execution.dask_address)
    return DaskTaskRunner(cluster_kwargs={"n_workers": execution.processes, "threads_per_worker": 1, "dashboard_address": None})


RUNNERS: dict[str, Callable[[p.Execution], TaskRunner[Any]]] = {"threads": _threads, "dask": _dask}
