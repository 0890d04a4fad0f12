"""Running DVC as a subprocess: its lines as they come, an error that names the stage, and no process left behind."""

import codecs
import os
import re
import selectors
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from graphlib import TopologicalSorter
from pathlib import Path

from flows import QUIET_AND_OFFLINE, process_group

LAST_LINES = 20

_FAILED = re.compile(r"failed to reproduce '(?P<stage>[^']+)'")
_NODE = re.compile(r'"(?P<name>[^"]+)";')
_EDGE = re.compile(r'"(?P<before>[^"]+)" -> "(?P<after>[^"]+)";')


class DvcFailed(RuntimeError):
    """DVC, or a stage that it ran, ended with an error.

    ``stage`` is None where no stage had been reached; ``lines`` are the last that DVC and the stage wrote.
    """

    def __init__(self, command: str, stage: str | None, status: int, lines: Sequence[str]) -> None:
        what = f"Stage '{stage}' failed" if stage else f"'{command}' failed"
        super().__init__("\n".join([f"{what} (exit status {status}). Its last lines:", *lines]))
        self.stage = stage
        self.status = status
        self.lines = tuple(lines)


def repro(
    targets: Sequence[str],
    repository: Path,
    on_line: Callable[[str], None],
    *,
    force: bool = False,
    single: bool = False,
    grace: float = process_group.GRACE_SECONDS,
) -> None:
    """``dvc repro`` of ``targets`` (none: everything) in ``repository``; ``on_line`` hears each line of output as it comes.

    ``single`` runs the targets alone, without what they depend on. Raises DvcFailed if a stage fails. Whatever ends the call
    (also an exception, an interrupt, or a signal whose handler raises), no process of the run is left once it returns;
    processes get ``grace`` seconds between SIGTERM and SIGKILL.
    """
    options = [*(["--force"] if force else []), *(["--single-item"] if single else [])]
    run_dvc(["repro", *options, *targets], repository, on_line, grace=grace)


def plan(targets: Sequence[str], repository: Path) -> list[str]:
    """The names of ``targets`` (none: all stages) and of all that they depend on, each after its dependencies.

    A target is whatever ``dvc repro`` takes: a stage, a matrix (all its stages), an output, a .dvc file. Raises DvcFailed for
    an unknown one and ValueError if there is no stage at all.
    """
    sorter: TopologicalSorter[str] = TopologicalSorter()
    names: dict[str, None] = {}
    for arguments in [[target] for target in targets] or [[]]:
        lines: list[str] = []
        run_dvc(["dag", "--dot", *arguments], repository, lines.append)
        for line in lines:
            if node := _NODE.fullmatch(line):
                names[node["name"]] = None
                sorter.add(node["name"])
            elif edge := _EDGE.fullmatch(line):
                sorter.add(edge["after"], edge["before"])
    if not names:
        raise ValueError(f"{repository} has no DVC stage; name the folder that holds dvc.yaml.")
    return list(sorter.static_order())


def run_dvc(
    arguments: Sequence[str],
    repository: Path,
    on_line: Callable[[str], None],
    *,
    grace: float = process_group.GRACE_SECONDS,
) -> None:
    """Run ``dvc`` with ``arguments`` in ``repository``, with the promises of ``repro``."""
    last: deque[str] = deque(maxlen=LAST_LINES)
    with subprocess.Popen(
        [sys.executable, process_group.__file__, str(grace), sys.executable, "-m", "dvc", *arguments],
        cwd=repository,
        env=_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as leader:
        try:
            for line in _lines(leader):
                last.append(line)
                on_line(line)
        finally:
            _end(leader, grace)
    if leader.returncode != 0:
        failed = next((match for line in reversed(last) if (match := _FAILED.search(line))), None)
        raise DvcFailed("dvc " + " ".join(arguments), failed["stage"] if failed else None, leader.returncode, last)


def _end(leader: subprocess.Popen[bytes], grace: float) -> None:
    """Let the leader end its group, as it does when its input closes; ``communicate`` closes it and drops further output."""
    if leader.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            leader.communicate(timeout=grace + 2 * process_group.LAST_SECONDS)
    # A leader that was itself killed could not do that.
    with suppress(ProcessLookupError):
        os.killpg(leader.pid, signal.SIGKILL)


def _environment() -> dict[str, str]:
    """This process's environment, quiet and offline unless told otherwise, in which ``python`` is this Python."""
    return {
        **QUIET_AND_OFFLINE,
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "PYTHONUNBUFFERED": "1",
    }


def _lines(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """Lines of the process's output without their ends, until it closes or, though still open, the process has ended.

    The second case: a service that a stage started and that detached itself holds the other end. Text overwritten by a
    carriage return, as progress bars do, is dropped.
    """
    output = process.stdout
    assert output is not None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        while True:
            ended = process.poll() is not None
            if not selector.select(timeout=0 if ended else 0.2):
                if ended:
                    break
                continue
            chunk = os.read(output.fileno(), 65536)
            if not chunk:
                break
            *whole, rest = (rest + decoder.decode(chunk)).split("\n")
            for line in whole:
                yield line.rstrip("\r").rpartition("\r")[2]
            # A trailing carriage return may be the first half of a line end.
            rest = rest[rest[:-1].rfind("\r") + 1 :]
    if rest:
        yield rest.rstrip("\r")
