"""Running a command so that nothing of it is left when it, or whoever asked for it, has ended (POSIX).

A killed ``dvc`` leaves its stage running, and a stage may have started workers of its own. So this module runs the command as a
program in a session of its own::

    python process_group.py GRACE_SECONDS COMMAND ...

It watches its standard input. When that is closed, the caller wants an end or has ended itself, however (killed, out of memory,
terminal closed). Then, and also when the command has ended by itself, all that the command started is ended. The exit status is
the command's, 128 + n where signal n killed it.

How the end is made: the command gets SIGINT, as from a keyboard, and what it started SIGTERM. DVC ignores SIGINT while a stage
runs, then sees the stage fail and gives its locks back; while no stage runs it stops. (DVC killed outright may leave a
half-written lock file, which the next DVC refuses to read.) What still runs after the grace period gets SIGKILL, the command
last.

Found: all processes of the group, and their descendants in sessions of their own (as torchrun's workers are). Not found: one
that left the group and whose parent has ended, which is how a service detaches itself on purpose.

The program is started by its path, so that it works in any folder; hence this module imports nothing of this package.
"""

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress

import psutil

GRACE_SECONDS = 10.0
"""From SIGTERM to SIGKILL. Below the 30 s after which Prefect kills a flow's process that was told to stop."""

LAST_SECONDS = 3.0
"""What the command itself gets after all that it started was killed."""


def main(grace: float, command: list[str]) -> int:
    """Run ``command`` in this process's group until it ends or standard input closes, end all; returns its exit status."""
    # A shell starts background jobs with SIGINT ignored, and the command would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    command_process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while command_process.poll() is None:
        readable, _, _ = select.select([0], [], [], 0.1)
        if readable and not os.read(0, 1024):
            break
    _end(command_process, grace)
    status = command_process.wait()
    return status if status >= 0 else 128 - status


def _end(command: subprocess.Popen[bytes], grace: float) -> None:
    known = _started_by(command, set())
    _ask_to_end(command, known)
    deadline = time.monotonic() + grace
    while (running := _started_by(command, known)) or command.poll() is None:
        if time.monotonic() >= deadline:
            _kill(command, running)
            return
        # Only new processes, or the signal could interrupt the cleaning up that the first one caused.
        if new := running - known:
            _ask_to_end(command, new)
            known |= new
        time.sleep(0.05)


def _ask_to_end(command: subprocess.Popen[bytes], started: set[psutil.Process]) -> None:
    # SIGINT first: once its stage has ended, DVC does not ignore it any longer, and is about to write its lock file.
    command.send_signal(signal.SIGINT)
    for process in started:
        with suppress(psutil.Error):
            process.terminate()


def _kill(command: subprocess.Popen[bytes], started: set[psutil.Process]) -> None:
    for process in started:
        with suppress(psutil.Error):
            process.kill()
    with suppress(subprocess.TimeoutExpired):
        command.wait(LAST_SECONDS)
    command.kill()
    for process in _started_by(command, started):
        with suppress(psutil.Error):
            process.kill()


def _started_by(command: subprocess.Popen[bytes], known: set[psutil.Process]) -> set[psutil.Process]:
    """What runs in this process's group, its descendants, and what runs of ``known``; without this process and the command."""
    found = set(known)
    for process in psutil.process_iter():
        with suppress(OSError, psutil.Error):
            if os.getpgid(process.pid) == os.getpgrp():
                found.update([process, *process.children(recursive=True)])
    return {process for process in found if process.pid not in (os.getpid(), command.pid) and _runs(process)}


def _runs(process: psutil.Process) -> bool:
    """Zombies do not run; they may stay for ever where process 1 does not collect orphans, as in some containers."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
