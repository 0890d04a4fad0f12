"""Work in forked children that can compute and answer, and nothing else: no files, processes or sockets, little time and memory.

A second line of defence behind ``guards``, and the first against what takes for ever: ``power(9, 10**9)`` is a valid call.
Imports the standard library alone.
"""

import json
import math
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

MEMORY = 2 << 30
"""Bytes of address space of a child."""

PATIENCE = 20
"""Seconds of waiting for each second of computing that an item may take: a busy machine makes no answer wrong."""

_REFUSED = ("os.", "subprocess.", "socket.", "ctypes.", "shutil.", "pty.", "tempfile.", "urllib.", "mmap.")


def each(function: Callable[[Any], Any], items: Sequence[Any], seconds: float, fresh: bool = False) -> Iterator[Any]:
    """``function(item)``, a JSON value, for each item in order; None where the child died or computed longer than ``seconds``.

    A child goes on to the next item, and a new one takes over behind an item that ended it. fresh: a child for every item, for
    functions that leave something behind.
    """
    start = 0
    while start < len(items):
        batch = items[start : start + 1] if fresh else items[start:]
        done = 0
        for value in _child(function, batch, seconds):
            yield value
            done += 1
        if done < len(batch):
            yield None
            done += 1
        start += done


def _child(function: Callable[[Any], Any], items: Sequence[Any], seconds: float) -> Iterator[Any]:
    """The values of the items that one child came to."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            _confine()
            for item in items:
                _allow(seconds)
                _write(writing, json.dumps(function(item)).encode() + b"\n")
        finally:
            os._exit(0)
    os.close(writing)
    try:
        yield from (json.loads(line) for line in _lines(reading, seconds * PATIENCE))
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _lines(reading: int, seconds: float) -> Iterator[bytes]:
    """Lines from a pipe, until it ends or the next one does not come in time."""
    pending, deadline = b"", time.monotonic() + seconds
    while select.select([reading], [], [], max(0.0, deadline - time.monotonic()))[0]:
        read = os.read(reading, 1 << 16)
        if not read:
            return
        *lines, pending = (pending + read).split(b"\n")
        if lines:
            yield from lines
            deadline = time.monotonic() + seconds


def _write(writing: int, line: bytes) -> None:
    while line:
        line = line[os.write(writing, line) :]


def _allow(seconds: float) -> None:
    """As much more computing. The system ends a process beyond it, even one that no signal handler would reach."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used.ru_utime + used.ru_stime + seconds), most))


def _confine() -> None:
    """Give up, for good, what a child does not need."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    for limit, most in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(limit, (most, most))
    sys.addaudithook(_refuse)


def _refuse(event: str, _: tuple[Any, ...]) -> None:
    if event == "open" or event.startswith(_REFUSED):
        raise PermissionError(f"{event} is not allowed here")
