"""Scratch copies of this repository in which tests run the pipeline as a user does: with ``dvc``, from its own sources."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

ROOT = Path(__file__).parents[1]
GENERATED = ("dvc.lock", "reports/")  # tracked, but written by the pipeline: a scratch repository starts without them
KEPT = ("reports/experiment/results.json",)  # read by the pipeline, written by none of its stages
DVC = (sys.executable, "-m", "dvc")
LONGEST = 1800.0  # seconds for a whole run of the pipeline on a busy machine


@dataclass(frozen=True)
class Repository:
    """A scratch repository at ``path``. Output of its commands goes to a file beside it, and its DVC shares nothing."""

    path: Path

    @staticmethod
    def create(path: Path, profile: str) -> "Repository":
        """Tracked and new files of this repository, committed, with the parameters of ``profile``; no outputs."""
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file() and (name in KEPT or not name.startswith(GENERATED)):
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, path / name)
        # Outputs stay where a stage wrote them, also where the file system could link them to the cache: their times tell tests
        # what was made anew.
        (path / ".dvc" / "config.local").write_text("[cache]\n    type = copy\n")
        repository = Repository(path)
        for arguments in (
            ["init", "-q"],
            ["add", "."],
            ["-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "-q", "-m", "all"],
        ):
            repository.run("git", *arguments)
        repository.run(sys.executable, "-m", "slca", "profile", profile, "--write")
        return repository

    def copy(self, path: Path) -> "Repository":
        """A copy with all outputs, DVC's cache and file times."""
        shutil.copytree(self.path, path, symlinks=True)
        return Repository(path)

    def run(self, *command: str) -> str:
        """What the command wrote; fails the test unless it succeeds."""
        with self.running(*command) as process:
            status = process.wait(LONGEST)
        assert status == 0, f"{' '.join(command)} ended with {status}:\n{self.output()}"
        return self.output()

    def dvc(self, *arguments: str) -> str:
        """``run`` of ``dvc``."""
        return self.run(*DVC, *arguments)

    @contextmanager
    def running(self, *command: str) -> Iterator[subprocess.Popen[bytes]]:
        """The command as the leader of a process group, which is killed in the end if it is still there."""
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(self.path),
            "SLCA_TAU2_PYTHON": os.environ.get("SLCA_TAU2_PYTHON", str(ROOT / ".venv-tau2" / "bin" / "python")),
            "SLCA_BFCL_PYTHON": os.environ.get("SLCA_BFCL_PYTHON", str(ROOT / ".venv-bfcl" / "bin" / "python")),
            "DVC_SITE_CACHE_DIR": str(self.path.with_suffix(".site")),
            "DVC_NO_ANALYTICS": "1",
            "HF_HUB_OFFLINE": "1",
        }
        with (
            self._log.open("wb") as log,
            subprocess.Popen(
                command, cwd=self.path, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            ) as process,
        ):
            try:
                yield process
            finally:
                if process.poll() is None:
                    kill_group(process)

    def output(self) -> str:
        """What the last command has written so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def _log(self) -> Path:
        return self.path.with_suffix(".log")

    def wait_for(self, what: str, condition: Callable[[], Any], seconds: float = 300.0) -> None:
        """Fails the test, with the output of the last command, unless ``condition`` comes true in time."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                pytest.fail(f"{what}: not within {seconds:g} s. Output:\n{self.output()}")
            time.sleep(0.01)

    def processes(self) -> list[psutil.Process]:
        """All that works in this repository, whoever started it."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):  # ended meanwhile, a zombie, or another user's
                if process.cwd() == str(self.path):
                    found.append(process)
        return found

    def lock(self) -> Any:
        """dvc.lock, parsed: a stage that ran for the first time stands at its end."""
        return yaml.safe_load((self.path / "dvc.lock").read_text())

    def outputs(self, *stages: str) -> list[Path]:
        """The outputs of stages (none: of all) according to dvc.lock."""
        entries = self.lock()["stages"]
        return [self.path / out["path"] for stage in stages or entries for out in entries[stage]["outs"]]

    def forget(self, *stages: str) -> None:
        """As if these stages had never run: else DVC would restore their outputs from its cache and run nothing."""
        lock = self.lock()
        for output in self.outputs(*stages):
            shutil.rmtree(output)
        for stage in stages:
            del lock["stages"][stage]
        (self.path / "dvc.lock").write_text(yaml.safe_dump(lock, sort_keys=False))
        shutil.rmtree(self.path / ".dvc" / "cache" / "runs")

    def set_parameter(self, section: str, name: str, value: Any) -> None:
        params = yaml.safe_load((self.path / "params.yaml").read_text())
        assert params[section][name] != value
        params[section][name] = value
        (self.path / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the group that ``process`` leads; returns when it has ended."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def stages_run(output: str) -> list[str]:
    """The stages that ``dvc repro`` ran, in order."""
    return re.findall(r"^Running stage '(.+)':$", output, re.MULTILINE)


def times(folder: Path) -> dict[str, int]:
    """Relative path -> time of the last change (ns) of all Parquet files of a folder."""
    return {file.relative_to(folder).as_posix(): file.stat().st_mtime_ns for file in sorted(folder.rglob("part-*.parquet"))}
