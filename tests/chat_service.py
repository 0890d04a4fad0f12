"""The scripted chat server of ``sgls/chat_server.py`` as a process, seen from outside."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from slca.records import Json

PROGRAM = Path(__file__).parent / "sgls" / "chat_server.py"


class ChatService:
    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"

    def plan(self, *steps: dict[str, Json]) -> None:
        httpx.post(f"{self.address}/plan", json=steps).raise_for_status()

    def seen(self) -> Any:
        return httpx.get(f"{self.address}/seen").json()

    def bodies(self) -> list[Any]:
        return [request["body"] for request in self.seen()["requests"]]


@contextmanager
def running() -> Iterator[int]:
    """The port of a server that lives as long as the context."""
    with subprocess.Popen([sys.executable, str(PROGRAM)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()
