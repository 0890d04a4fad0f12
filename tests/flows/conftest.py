"""Small DVC repositories to run flows on, and one Prefect server for all tests of a session."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

# Before Prefect is imported: it reads its settings then.
os.environ["PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"] = "90"

# Writes its own process id, that of a child, and that of a child in a session of its own, then sleeps.
SLEEPER = """
import os, subprocess, sys, time
from pathlib import Path
sleep = [sys.executable, "-c", "import time; time.sleep(300)"]
children = [subprocess.Popen(sleep), subprocess.Popen(sleep, start_new_session=True)]
Path("pids.tmp").write_text(" ".join(str(pid) for pid in [os.getpid(), *(child.pid for child in children)]))
Path("pids.tmp").rename("pids")
print("asleep", flush=True)
time.sleep(300)
"""


@pytest.fixture(scope="session")
def empty_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Git and DVC repository to copy, since initialising one takes a while."""
    path = tmp_path_factory.mktemp("empty")
    for command in (["git", "init", "-q"], [sys.executable, "-m", "dvc", "init", "-q"]):
        subprocess.run(command, cwd=path, check=True)
    return path


@pytest.fixture
def make_repository(tmp_path: Path, empty_repository: Path) -> Callable[[dict[str, Any]], Path]:
    """A function from the ``stages`` of a dvc.yaml to a new Git and DVC repository that holds it."""

    def make(stages: dict[str, Any]) -> Path:
        repository = tmp_path / "repository"
        shutil.copytree(empty_repository, repository)
        (repository / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}, sort_keys=False))
        return repository

    return make


def wait(what: str, condition: Callable[[], Any], seconds: float = 60) -> Any:
    """The first true value of ``condition``; fails the test if there is none in time."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not happen within {seconds} s")
        time.sleep(0.1)
    return value


@pytest.fixture
def wait_for() -> Callable[..., Any]:
    """The function ``wait``."""
    return wait


def gone(process: psutil.Process) -> bool:
    """Whether a process has ended (zombies have)."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@dataclass(frozen=True)
class SleepingRepository:
    """A repository whose one stage, ``sleep``, runs SLEEPER: long enough to be stopped."""

    path: Path

    def processes(self) -> list[psutil.Process]:
        """The three processes of the stage, once they have started."""
        pids = self.path / "pids"
        wait("the start of the stage", pids.exists)
        return [psutil.Process(int(pid)) for pid in pids.read_text().split()]

    def wait_until_gone(self, processes: list[psutil.Process]) -> None:
        """Fails the test unless all the processes end well before they would by themselves."""
        wait("the end of all processes", lambda: all(gone(process) for process in processes), 20)

    def mend(self) -> None:
        """From now on the stage writes its output at once."""
        (self.path / "sleeper.py").write_text("open('out', 'w').write('done')\n")

    def assert_repro_works(self) -> None:
        """Nothing that a stopped run left behind (locks, half outputs) keeps DVC from running the mended stage."""
        self.mend()
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        command = [sys.executable, "-m", "dvc", "repro"]
        done = subprocess.run(command, cwd=self.path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert (self.path / "out").read_text() == "done"


@pytest.fixture
def sleeping(make_repository: Callable[[dict[str, Any]], Path]) -> SleepingRepository:
    """A SleepingRepository."""
    path = make_repository({"sleep": {"cmd": "python sleeper.py", "deps": ["sleeper.py"], "outs": ["out"]}})
    (path / "sleeper.py").write_text(SLEEPER)
    return SleepingRepository(path)


# What `python -m slca evaluate` of a repository's own code could leave.
SCORER = """
import json, sys
from pathlib import Path
options = dict(option.removeprefix("--").split("=", 1) for option in sys.argv[2:])
measures = {"tasks": 10, "masked": 0, "success": 0.5}
bfcl = {"package": "p", "multiple_accuracy": 0.25, "multiple_n": 4, "multiple_gold": 1.0}
report = {"checkpoint": options["checkpoint"], "profile": "tiny", "policy": "abc"}
report |= {"splits": {"test": measures, "unseen_tools": measures}, "bfcl": bfcl}
path = Path(options["output"], Path(options["checkpoint"]).name + ".json")
path.parent.mkdir(parents=True)
path.write_text(json.dumps(report))
print("options", json.dumps(options))
"""


def own_code(repository: Path, program: str) -> Path:
    """Give a repository a package ``slca`` that consists of ``program``."""
    (repository / "slca").mkdir(parents=True)
    (repository / "slca" / "__init__.py").touch()
    (repository / "slca" / "__main__.py").write_text(program)
    return repository


@pytest.fixture
def scoring(tmp_path: Path) -> Path:
    """A repository whose ``slca evaluate`` is SCORER."""
    return own_code(tmp_path / "scoring", SCORER)


@pytest.fixture
def sleeping_evaluation(tmp_path: Path) -> SleepingRepository:
    """A repository whose ``slca evaluate`` is SLEEPER."""
    return SleepingRepository(own_code(tmp_path / "sleeping", SLEEPER))


@pytest.fixture(scope="session")
def prefect_api() -> Iterator[str]:
    """The address of a Prefect server with an empty database, which flows called in the test's process use too."""
    from prefect.settings import PREFECT_API_URL
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=90):
        address = PREFECT_API_URL.value()
        assert address
        yield address
