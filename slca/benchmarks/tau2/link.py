"""The worker's process, and a line to each of its simulations: sockets that carry JSON lines and never block."""

import json
import selectors
import socket
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from slca.benchmarks.interpreter import Interpreter, surroundings
from slca.benchmarks.tau2 import worker
from slca.errors import SlcaError

INTERPRETER = Interpreter("tau2", worker.PACKAGE)
STEP_SECONDS = 60.0
"""Processor time that tau2's code may take between two questions, or for the verdict; it takes a second at the most."""
_START_SECONDS = 120.0
_CHUNK = 1 << 16


class Line:
    """One simulation's end of the line."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._received = b""
        self._unsent = b""

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, value: dict[str, Any]) -> None:
        """At once as far as the socket takes it, the rest before the next read. A line that is closed swallows it."""
        self._unsent += (json.dumps(value) + "\n").encode("ascii")
        self.flush()

    def flush(self) -> None:
        try:
            while self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self._unsent = b""

    @property
    def pending(self) -> bool:
        return bool(self._unsent)

    def receive(self) -> dict[str, Any] | None:
        """A whole line if there is one, else None. EOFError where the process has ended."""
        self.flush()
        ended = False
        try:
            while b"\n" not in self._received:
                chunk = self._socket.recv(_CHUNK)
                if not chunk:
                    ended = True
                    break
                self._received += chunk
        except BlockingIOError:
            return None
        except OSError:
            ended = True
        line, found, self._received = self._received.partition(b"\n")
        if not found and ended:
            raise EOFError
        value: dict[str, Any] = json.loads(line)
        return value

    def close(self) -> None:
        self._socket.close()


class Worker:
    """The process that forks simulations, in a folder of its own, which goes with it. Raises SlcaError where it cannot start."""

    def __init__(self, root: Path = Path(".")) -> None:
        command = INTERPRETER.command(root, worker.__file__, "serve")
        self._folder = tempfile.TemporaryDirectory(prefix="slca-tau2-")
        folder = Path(self._folder.name)
        self._errors = folder / "stderr"
        self._control, inherited = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with self._errors.open("wb") as errors, inherited:
            self.process = subprocess.Popen(
                [*command, str(inherited.fileno())],
                cwd=folder,
                env=surroundings(self._folder.name),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=(inherited.fileno(),),
            )

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._control.close()  # which ends it
        try:
            self.process.wait(STEP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._folder.cleanup()

    def start(self, order: dict[str, Any]) -> Line:
        """A process for ``order``, and the line to it."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._control, [json.dumps(order).encode("ascii")], [theirs.fileno()])
            except OSError:
                self.check()
                raise
        return Line(ours)

    def check(self) -> None:
        """Raises SlcaError with its last words if the worker has ended."""
        try:
            code = self.process.wait(0.0 if self.process.poll() is not None else 0.2)
        except subprocess.TimeoutExpired:
            return
        words = self._errors.read_text(encoding="utf-8", errors="replace")
        raise SlcaError(INTERPRETER.failure(f"failed with exit code {code}", words, "what was finished is kept"))

    def describe(self, domain: str) -> dict[str, Any]:
        """What the worker says of a domain (``worker.describe``)."""
        line = self.start({"describe": domain, "step_seconds": STEP_SECONDS})
        with selectors.DefaultSelector() as selector:
            selector.register(line, selectors.EVENT_READ)
            try:
                while selector.select(_START_SECONDS):
                    value = line.receive()
                    if value is not None and "failure" in value:
                        raise SlcaError(f"The tau2 worker does not describe domain {domain!r}: {value['failure']}.")
                    if value is not None:
                        return value
            except EOFError:
                self.check()
            finally:
                line.close()
        raise SlcaError(f"The tau2 worker did not describe domain {domain!r}; run `make setup` and repeat.")
