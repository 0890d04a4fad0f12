"""Running a command as a subprocess: its lines as they come, an error with the last of them, and no process left behind."""

import codecs
import os
import selectors
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from flows import QUIET_AND_OFFLINE, process_group

LAST_LINES = 20


class CommandFailed(RuntimeError):
    """A command ended with an error. ``lines`` are the last that it wrote."""

    def __init__(self, what: str, status: int, lines: Sequence[str]) -> None:
        super().__init__("\n".join([f"{what} failed (exit status {status}). Its last lines:", *lines]))
        self.status = status
        self.lines = tuple(lines)


def run_module(
    arguments: Sequence[str],
    folder: Path,
    on_line: Callable[[str], None],
    *,
    grace: float = process_group.GRACE_SECONDS,
) -> None:
    """Run ``python -m`` with ``arguments`` (the first names the module) in ``folder``; ``on_line`` hears each line of output.

    Raises CommandFailed. Whatever ends the call (also an exception, an interrupt, or a signal whose handler raises), no process
    of the run is left once it returns; processes get ``grace`` seconds between SIGTERM and SIGKILL.
    """
    last: deque[str] = deque(maxlen=LAST_LINES)
    with subprocess.Popen(
        [sys.executable, process_group.__file__, str(grace), sys.executable, "-m", *arguments],
        cwd=folder,
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
        raise CommandFailed(f"'{' '.join(arguments)}'", leader.returncode, last)


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
