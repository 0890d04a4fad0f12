"""What the processes of tests/test_work.py do: spawned processes import it by name. As a program: a parent to be killed."""

import os
import sys
import time
from pathlib import Path

from slca.side_by_side import beside


def write(path: Path) -> None:
    path.write_text("done")


def fail(path: Path) -> None:
    print("a child's output")
    path.write_text("failing")
    raise RuntimeError("a child's fault")


def sleep(folder: Path, name: str) -> None:
    """Leave the process id in ``folder`` and do not end."""
    temporary = folder / f".{name}"
    temporary.write_text(str(os.getpid()))
    temporary.rename(folder / name)
    time.sleep(600)


def await_file(path: Path, seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} did not appear")
        time.sleep(0.05)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    with beside(sleep, [(folder, "first"), (folder, "second")]):
        sleep(folder, "parent")
