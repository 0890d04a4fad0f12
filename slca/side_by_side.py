"""Independent work in processes beside this one. No scheduler: what is beside ends with this process, however this one ends."""

import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any


@contextmanager
def beside(function: Callable[..., None], calls: Sequence[tuple[Any, ...]]) -> Iterator[None]:
    """Run ``function`` with each argument tuple in a process of its own while the body runs; wait for all of them at the end.

    A failure beside is left to whoever does that work for its own sake; a failure in the body ends the others.
    """
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_watched, args=(os.getpid(), function, arguments)) for arguments in calls]
    for process in processes:
        process.start()
    try:
        yield
        for process in processes:
            process.join()
    finally:
        for process in processes:
            process.kill()
            process.join()


def _watched(parent: int, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """End with the parent, even when that is killed; say nothing, since the terminal belongs to the parent's progress."""
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    # Not given back at the end: a failure's traceback, printed after this function, would go to the terminal too.
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    function(*arguments)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
