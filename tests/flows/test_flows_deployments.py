"""The deployment: its settings, and a real server and worker that run it, refuse a second run, and cancel one."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import ConcurrencyLimitStrategy
from prefect.client.schemas.schedules import CronSchedule
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows import QUIET_AND_OFFLINE, deployments

ROOT = Path(__file__).parents[2]


def test_nightly_in_a_time_zone_one_at_a_time() -> None:
    nightly, _ = deployments.deployments(pool="pool", cron="30 4 * * 1-5", timezone="Asia/Tokyo", paused=True)
    assert nightly.full_name == "slca-pipeline/nightly"
    assert nightly.work_pool_name == "pool"
    assert nightly.paused
    assert nightly.schedules
    schedule = nightly.schedules[0].schedule
    assert isinstance(schedule, CronSchedule)
    assert (schedule.cron, schedule.timezone) == ("30 4 * * 1-5", "Asia/Tokyo")
    assert nightly.concurrency_limit == 1
    assert nightly.concurrency_options
    assert nightly.concurrency_options.collision_strategy == ConcurrencyLimitStrategy.CANCEL_NEW


def test_an_evaluation_has_no_schedule_and_waits_for_its_turn() -> None:
    _, checkpoint = deployments.deployments(pool="pool", paused=True)
    assert checkpoint.full_name == "slca-evaluate/checkpoint"
    assert (checkpoint.work_pool_name, checkpoint.schedules, checkpoint.concurrency_limit) == ("pool", [], 1)
    assert checkpoint.concurrency_options
    assert checkpoint.concurrency_options.collision_strategy == ConcurrencyLimitStrategy.ENQUEUE


@pytest.mark.parametrize(
    ("options", "word"),
    [(["--timezone", "Mars/Base"], "Mars/Base"), (["--cron", "every night"], "every night")],
    ids=["timezone", "cron"],
)
def test_a_wrong_schedule_is_refused_in_one_sentence(options: list[str], word: str, capsys: pytest.CaptureFixture[str]) -> None:
    # Nobody listens there: asking the server would be an error of another kind.
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        assert deployments.main(options) == 2
    message = capsys.readouterr().err
    assert word in message and message.count("\n") == 1


def test_without_a_server_address_nothing_is_registered(capsys: pytest.CaptureFixture[str]) -> None:
    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        assert deployments.main([]) == 2
    assert "PREFECT_API_URL" in capsys.readouterr().err


@dataclass(frozen=True)
class Workplace:
    """A Prefect server of its own, and the environment in which commands talk to it."""

    client: SyncPrefectClient
    environment: dict[str, str]

    def run(self, *command: str) -> str:
        """Run ``python -m COMMAND`` in the root of this project; returns its output."""
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def running(self, *command: str) -> Iterator[None]:
        """``python -m COMMAND`` in the background, in a temporary folder, ended on leaving."""
        process = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=self.environment["PREFECT_HOME"], env=self.environment, start_new_session=True
        )
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def trigger(self, repository: Path, deployment: str = "slca-pipeline/nightly", **parameters: str) -> UUID:
        """Start a run of a deployment on ``repository``; returns its id."""
        before = self.triggered()
        given = {"repository": str(repository), **parameters}
        options = [option for name, value in given.items() for option in ("--param", f"{name}={json.dumps(value)}")]
        self.run("prefect", "deployment", "run", deployment, *options)
        (new,) = self.triggered() - before
        return new

    def triggered(self) -> set[UUID]:
        """All runs but those that the server's scheduler has put down for the nights to come, at a time of its own."""
        return {run.id for run in self.client.read_flow_runs() if not run.auto_scheduled}

    def state(self, flow_run: UUID) -> str:
        """The name of a flow run's state."""
        return self.client.read_flow_run(flow_run).state_name or ""


@pytest.fixture
def workplace(tmp_path: Path, wait_for: Callable[..., Any]) -> Iterator[Workplace]:
    """A server on a free port of this machine, with its own home."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}/api"
    home = tmp_path / "home"
    home.mkdir()
    environment = {
        **os.environ,
        **QUIET_AND_OFFLINE,
        "PREFECT_HOME": str(home),
        "PREFECT_API_URL": address,
        "PREFECT_WORKER_QUERY_SECONDS": "1",
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{home}/prefect.db",
    }

    def healthy() -> bool:
        try:
            return httpx.get(f"{address}/health").is_success
        except httpx.TransportError:
            return False

    with SyncPrefectClient(api=address) as client:
        place = Workplace(client, environment)
        with place.running("prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)):
            wait_for("the start of the server", healthy, 90)
            yield place


@pytest.mark.slow
def test_deploy_run_refuse_a_second_run_and_cancel(
    workplace: Workplace, sleeping: Any, scoring: Path, wait_for: Callable[..., Any]
) -> None:
    said = workplace.run("flows.deployments", "--pool", "slca", "--cron", "15 3 * * *", "--timezone", "UTC", "--paused")
    assert "prefect worker start --pool slca --type process" in said
    workplace.run("flows.deployments", "--pool", "slca", "--cron", "45 3 * * *", "--timezone", "UTC")  # updates all
    registered, other = sorted(workplace.client.read_deployments(), key=lambda deployment: deployment.name, reverse=True)
    assert (registered.name, other.name, other.schedules) == ("nightly", "checkpoint", [])
    assert [schedule.schedule for schedule in registered.schedules] == [CronSchedule(cron="45 3 * * *", timezone="UTC")]
    assert not registered.paused
    assert workplace.client.read_work_pool("slca").type == "process"

    with workplace.running("prefect", "worker", "start", "--pool", "slca", "--type", "process"):
        stopped = workplace.trigger(sleeping.path)
        processes = sleeping.processes()
        refused = workplace.trigger(sleeping.path)
        wait_for("the second run's end", lambda: workplace.state(refused) == "Cancelled", 30)
        assert workplace.state(stopped) == "Running"
        workplace.run("prefect", "flow-run", "cancel", str(stopped))
        sleeping.wait_until_gone(processes)
        wait_for("the cancelled run's end", lambda: workplace.state(stopped) == "Cancelled", 40)

        sleeping.mend()
        completed = workplace.trigger(sleeping.path)
        wait_for("the last run's end", lambda: workplace.state(completed) in ("Completed", "Failed", "Crashed"))
        assert workplace.state(completed) == "Completed"
        assert (sleeping.path / "out").read_text() == "done"

        scored = workplace.trigger(scoring, "slca-evaluate/checkpoint", checkpoint="models/slca-0")
        wait_for("the evaluation's end", lambda: workplace.state(scored) in ("Completed", "Failed", "Crashed"))
        assert workplace.state(scored) == "Completed"
