"""The flows' deployments, one run of each at a time, in a process work pool: the pipeline nightly, evaluations on demand.

``python -m flows.deployments`` creates the pool where it is missing and registers the deployments with the server at
PREFECT_API_URL; running it again updates all. A run of the pipeline that falls due while another is running is cancelled: two
runs in one working tree would wait for each other's locks, and the next night comes anyway. An evaluation waits for its turn:
somebody asked for it.
"""

import argparse
import sys
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from prefect import Flow, deploy
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import ObjectNotFound
from prefect.schedules import Cron
from prefect.settings import PREFECT_API_URL
from prefect.workers.process import ProcessWorker

from flows.evaluation import evaluate
from flows.pipeline import pipeline

ROOT = Path(__file__).resolve().parent.parent
PIPELINE = "flows/pipeline.py:pipeline"
EVALUATION = "flows/evaluation.py:evaluate"
"""Relative to ROOT, which the worker's process makes its working directory: hence ``flows`` can be imported there."""

POOL = "slca"
CRON = "0 2 * * *"
TIMEZONE = "Europe/Berlin"


def deployments(pool: str = POOL, cron: str = CRON, timezone: str = TIMEZONE, paused: bool = False) -> list[RunnerDeployment]:
    """``slca-pipeline/nightly``, whose schedule is off if ``paused``, and ``slca-evaluate/checkpoint``, which has none.

    Raises ValueError for a cron expression or a time zone that does not exist.
    """
    try:
        ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError):
        raise ValueError(f"Time zone {timezone!r} does not exist; give an IANA name such as {TIMEZONE!r}.") from None
    nightly = _source(pipeline, PIPELINE).to_deployment(
        name="nightly",
        schedule=Cron(cron, timezone=timezone),
        paused=paused,
        concurrency_limit=ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.CANCEL_NEW),
        work_pool_name=pool,
        description="Reproduces the DVC pipeline, mirrors its report, and fails if success fell below the accepted run's.",
    )
    checkpoint = _source(evaluate, EVALUATION).to_deployment(
        name="checkpoint",
        concurrency_limit=ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.ENQUEUE),
        work_pool_name=pool,
        description="Scores a given checkpoint on the held-out tasks and the benchmarks; trains nothing.",
    )
    # Prefect types these calls as "a value or a coroutine"; outside an event loop they return the value.
    assert isinstance(nightly, RunnerDeployment) and isinstance(checkpoint, RunnerDeployment)
    return [nightly, checkpoint]


def _source(of: Flow[..., Any], entrypoint: str) -> Flow[..., Any]:
    source = of.from_source(source=str(ROOT), entrypoint=entrypoint)
    assert isinstance(source, Flow)
    return source


def ensure_pool(name: str) -> None:
    """Create the process work pool ``name`` unless it exists. Raises ValueError if it exists with another type."""
    with get_client(sync_client=True) as client:
        try:
            found = client.read_work_pool(name).type
        except ObjectNotFound:
            template = ProcessWorker.get_default_base_job_template()
            client.create_work_pool(WorkPoolCreate(name=name, type=ProcessWorker.type, base_job_template=template))
        else:
            if found != ProcessWorker.type:
                raise ValueError(f"Work pool {name!r} has type {found!r}; name another with --pool, a process pool is needed.")


def main(arguments: list[str] | None = None) -> int:
    """The command line; 0 if the deployments are registered, 2 if the user has something to mend."""
    parser = argparse.ArgumentParser(prog="python -m flows.deployments", description="Register the flows' deployments.")
    parser.add_argument("--pool", default=POOL, help="process work pool (default: %(default)s)")
    parser.add_argument("--cron", default=CRON, help="schedule (default: %(default)r)")
    parser.add_argument("--timezone", default=TIMEZONE, help="time zone of the schedule (default: %(default)s)")
    parser.add_argument("--paused", action="store_true", help="keep the schedule off until it is resumed")
    options = parser.parse_args(arguments)
    try:
        if not PREFECT_API_URL.value():
            raise ValueError("PREFECT_API_URL is not set; start a server ('prefect server start') and set it to its address.")
        wanted = deployments(options.pool, options.cron, options.timezone, options.paused)
        ensure_pool(options.pool)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    deploy(*wanted, work_pool_name=options.pool, build=False, push=False, print_next_steps_message=False, ignore_warnings=True)
    print(f"Start a worker with: prefect worker start --pool {options.pool} --type process")
    nightly, checkpoint = (deployment.full_name for deployment in wanted)
    print(f"Start a run with:    prefect deployment run {nightly}")
    print(f"Score a checkpoint:  prefect deployment run {checkpoint} --param checkpoint=slca-0")
    return 0


if __name__ == "__main__":
    sys.exit(main())
