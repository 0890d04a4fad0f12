"""The worker from outside: one run with files, or an environment that executes calls, under BFCL's own python."""

import json
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from slca.benchmarks.bfcl import episodes, guards, sandbox, worker
from slca.benchmarks.bfcl.items import Prediction
from slca.benchmarks.interpreter import Interpreter, surroundings
from slca.errors import SlcaError
from slca.records import Json, Plan

INTERPRETER = Interpreter("BFCL", worker.PACKAGE)
TIME_LIMIT = 3600
"""Seconds for one worker; to score all categories takes well under a minute, unless many items run into their own limit."""

_ANSWER_LIMIT = 2 * sandbox.PATIENCE * episodes.SECONDS
"""Seconds for one execution, which the worker ends by itself earlier."""


def run(command: str, arguments: Sequence[str], root: Path, predictions: Sequence[Prediction] = ()) -> list[dict[str, Any]]:
    """Run the worker in a folder of its own, which goes with it; the JSON lines that it wrote. A failure raises SlcaError."""
    with tempfile.TemporaryDirectory(prefix="slca-bfcl-") as name:
        folder = Path(name)
        given, out = folder / "predictions.jsonl", folder / "out.jsonl"
        if predictions:
            worker.write_lines(given, [_line(prediction) for prediction in predictions])
            arguments = ("--predictions", str(given))
        try:
            done = subprocess.run(
                [*INTERPRETER.command(root, worker.__file__, command), *arguments, "--out", str(out)],
                cwd=folder,
                env=surroundings(name),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                timeout=TIME_LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SlcaError(f"The BFCL worker ({command}) did not end within {TIME_LIMIT} s; nothing was scored.") from None
        if done.returncode or not out.exists():
            raise _failure(command, f"failed with exit code {done.returncode}", done.stdout)
        return [json.loads(line) for line in out.read_text(encoding="ascii").splitlines()]


class Environment:
    """Executes the calls of episodes, as a context. The worker starts with the first call and ends with the context."""

    def __init__(self, root: Path = Path(".")) -> None:
        self._root = root
        self._open = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Environment":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._open.close()
        self._process = None

    def execute(self, item_id: str, category: str, turns: Sequence[Plan]) -> tuple[list[str], str]:
        """Results of the last step of an episode so far, and why there are none ("" if there are)."""
        process = self._process or self._start()
        assert process.stdin is not None
        request = {"id": item_id, "category": category, "turns": _turns(turns)}
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            raise self._broken("has ended") from None
        answer = json.loads(self._read_line(process))
        return answer["results"], answer["refused"]

    def _start(self) -> subprocess.Popen[bytes]:
        name = self._open.enter_context(tempfile.TemporaryDirectory(prefix="slca-bfcl-"))
        self._log = self._open.enter_context((Path(name) / "log").open("w+b"))
        self._process = subprocess.Popen(
            INTERPRETER.command(self._root, worker.__file__, "serve"),
            cwd=name,
            env=surroundings(name),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self._open.callback(self._stop, self._process)
        return self._process

    @staticmethod
    def _stop(process: subprocess.Popen[bytes]) -> None:
        """At the end of its input the worker ends and removes its folder; one that does not is killed."""
        with process:
            try:
                process.communicate(timeout=5)
            except (subprocess.TimeoutExpired, BrokenPipeError):
                process.kill()

    def _read_line(self, process: subprocess.Popen[bytes]) -> bytes:
        assert process.stdout is not None
        line, deadline = b"", time.monotonic() + _ANSWER_LIMIT
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise self._broken(f"did not answer within {_ANSWER_LIMIT:g} s")
                read = os.read(process.stdout.fileno(), 1 << 16)
                if not read:
                    raise self._broken("ended without an answer")
                line += read
        return line

    def _broken(self, how: str) -> SlcaError:
        if self._process is not None:
            self._process.kill()
        self._log.seek(0)
        return _failure("serve", how, self._log.read().decode(errors="replace"))


def _failure(command: str, how: str, output: str) -> SlcaError:
    return SlcaError(INTERPRETER.failure(f"({command}) {how}", output, "nothing was scored"))


def _line(prediction: Prediction) -> dict[str, Json]:
    turns = _turns(prediction.turns)
    return {"id": prediction.item_id, "category": prediction.category, "turns": turns, "refused": prediction.refused}


def _turns(turns: Sequence[Plan]) -> list[list[list[dict[str, Json]]]]:
    """Too large arguments are not sent, since they may nest too deeply for a JSON writer; the worker refuses the null."""
    return [
        [
            [{"name": call.name, "arguments": None if guards.too_large(call.arguments) else call.arguments} for call in step]
            for step in turn
        ]
        for turn in turns
    ]
