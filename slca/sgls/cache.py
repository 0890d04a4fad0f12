"""Content-addressed answers of backends: the same call in the same state always answers the same (method section 5, step 3).

Modes: ``off`` asks every time; ``readwrite`` asks once for each key; ``replay`` never asks, and a key without an answer is a
DataError. In memory, and in a folder where one is given: one small file per key, linked into place whole, so that of several
processes the first to answer decides for all.
"""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from slca.errors import DataError
from slca.files import digest, read_json
from slca.records import Json

Mode = Literal["off", "readwrite", "replay"]


def cache_key(schema: Json, arguments: Json, state: Json, backend: str, model: str, prompt_version: str, seed: int) -> str:
    """Hex digest of all that an answer may depend on."""
    return digest(schema, arguments, state, backend, model, prompt_version, seed)


class Cache:
    """``hits`` and ``misses`` count look-ups; with mode ``off`` every look-up misses."""

    def __init__(self, mode: Mode, folder: Path | None = None) -> None:
        self.mode = mode
        self.folder = folder
        self.hits = 0
        self.misses = 0
        self._texts: dict[str, str] = {}

    def answer(self, key: str, ask: Callable[[], Json]) -> Json:
        """The stored answer of ``key``, else that of ``ask``, whose exceptions pass through and are not stored.

        Raises DataError for a missing key in replay mode and for a damaged file.
        """
        if self.mode == "off":
            self.misses += 1
            return ask()
        text = self._texts.get(key) or self._read(key)
        if text is not None:
            self.hits += 1
        elif self.mode == "replay":
            where = f"in {self.folder}" if self.folder else "in memory"
            raise DataError(
                f"simulator.cache is replay, but no answer {key[:12]} is stored {where}; "
                "run once with simulator.cache: readwrite and the same parameters."
            )
        else:
            self.misses += 1
            text = self._store(key, json.dumps(ask(), ensure_ascii=False, allow_nan=False))
        self._texts[key] = text
        return json.loads(text)  # a fresh value each time: no caller can change what is stored

    def _path(self, key: str) -> Path | None:
        return self.folder / key[:2] / f"{key}.json" if self.folder else None

    def _read(self, key: str) -> str | None:
        path = self._path(key)
        if path is None or not path.exists():
            return None
        return json.dumps(read_json(path), ensure_ascii=False)

    def _store(self, key: str, text: str) -> str:
        path = self._path(key)
        if path is None:
            return text
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
            os.link(temporary, path)  # unlike a rename, it fails where another process was first
        except FileExistsError:
            text = self._read(key) or text
        finally:
            os.unlink(temporary)
        return text
