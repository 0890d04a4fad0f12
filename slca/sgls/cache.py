"""Content-addressed answers of backends: the same call in the same state always answers the same (method section 5, step 3).

Modes: ``off`` asks every time; ``readwrite`` asks once for each key; ``replay`` never asks, and a key without an answer is a
DataError. Answers are kept in a folder where one is given, and the latest used ones in memory.

The folder is shared by any number of processes and threads. An entry is one file, ``<2 digits>/<key>.json``, that appears whole,
by rename. Who generates an answer holds the lock of its key, so that no other process generates it meanwhile; the operating
system frees the lock of a process that dies. Keys are hexadecimal digests: nothing that a caller sends becomes part of a path.
An entry holds what its key is the digest of, and a digest of the answer, so that damage shows (``slca.sgls.cache_upkeep``).

Without a folder, an answer that has not been used for long (``MOST_KEPT``) is asked for again when it is needed. That is no
difference for a backend that always answers the same; one that does not needs a folder.
"""

import json
import os
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Literal

from filelock import FileLock

from slca.errors import DataError
from slca.files import digest
from slca.params import Simulator
from slca.records import Json

Mode = Literal["off", "readwrite", "replay"]

MOST_KEPT = 10_000
MOST_CHARACTERS = 2**24
"""Answers, and characters of answers, that are kept in memory."""


@dataclass(frozen=True)
class Question:
    """All that an answer may depend on; together it makes the key. ``tool`` only tells people which call asked.

    schema, state: digests of what ``slca.sgls.backends.Request`` names so. earlier: likewise, "" where the backend does not
    remember.
    """

    tool: str
    schema: str
    subject: Json
    state: str
    backend: str
    model: str
    prompt_version: str
    seed: int
    earlier: str = ""

    @property
    def key(self) -> str:
        """Hex digest."""
        parts = (self.schema, self.subject, self.state, self.backend, self.model, self.prompt_version, self.seed, self.earlier)
        return digest(*parts)

    def to_json(self) -> dict[str, Json]:
        return dict(self.__dict__)

    @staticmethod
    def from_json(value: dict[str, Json]) -> "Question":
        return Question(**value)


class Cache:
    """``hits`` and ``misses`` count look-ups; with mode ``off`` every look-up misses. Safe to use from several threads."""

    def __init__(self, mode: Mode, folder: Path | None = None) -> None:
        self.mode = mode
        self.folder = folder
        self.hits = 0
        self.misses = 0
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._characters = 0
        self._lock = Lock()  # of the counts, the texts and the flights
        self._flights: dict[str, tuple[Lock, int]] = {}

    @staticmethod
    def of(params: Simulator) -> "Cache":
        """The cache that ``params`` asks for."""
        return Cache(params.cache, Path(params.cache_folder) if params.cache_folder else None)

    @property
    def hit_rate(self) -> float:
        """Share of look-ups that were answered from the cache; 0.0 without any."""
        return self.hits / max(1, self.hits + self.misses)

    def answer(self, question: Question, ask: Callable[[], Json]) -> Json:
        """The stored answer, else that of ``ask``, whose exceptions pass through and are not stored.

        Raises DataError for a missing answer in replay mode and for a damaged file.
        """
        if self.mode == "off":
            self._count(hit=False)
            return ask()
        key = question.key
        text = self._kept(key) or self._read(key)
        if text is None and self.mode == "replay":
            raise DataError(_missing(question, self.folder))
        if text is not None:
            self._count(hit=True)
        else:
            with self._alone(key):
                text = self._kept(key) or self._read(key)  # another may have answered meanwhile
                self._count(hit=text is not None)
                if text is None:
                    text = self._store(question, ask())
        self._keep(key, text)
        return json.loads(text)  # a fresh value each time: no caller can change what is stored

    def _count(self, hit: bool) -> None:
        with self._lock:
            self.hits += hit
            self.misses += not hit

    def _kept(self, key: str) -> str | None:
        with self._lock:
            if key in self._texts:
                self._texts.move_to_end(key)
            return self._texts.get(key)

    def _keep(self, key: str, text: str) -> None:
        with self._lock:
            if key not in self._texts:
                self._texts[key] = text
                self._characters += len(text)
            while len(self._texts) > MOST_KEPT or self._characters > MOST_CHARACTERS:
                _, oldest = self._texts.popitem(last=False)
                self._characters -= len(oldest)

    @contextmanager
    def _alone(self, key: str) -> Iterator[None]:
        """Nobody else generates the answer of ``key``: no thread of this cache, no process on its folder."""
        with self._lock:
            flight, waiting = self._flights.get(key, (Lock(), 0))
            self._flights[key] = flight, waiting + 1
        try:
            with flight:
                if self.folder is None:
                    yield
                    return
                path = lock_path(self.folder, key)
                path.parent.mkdir(parents=True, exist_ok=True)
                with FileLock(path, poll_interval=0.01):
                    try:
                        yield
                    finally:
                        path.unlink(missing_ok=True)  # while it is held: who waits for it notices, and takes a new file
        finally:
            with self._lock:
                flight, waiting = self._flights.pop(key)
                if waiting > 1:
                    self._flights[key] = flight, waiting - 1

    def _read(self, key: str) -> str | None:
        if self.folder is None:
            return None
        path = entry_path(self.folder, key)
        try:
            text = path.read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except UnicodeDecodeError:
            raise DataError(_damaged(path)) from None
        entry = read_entry(text, key)
        if entry is None:
            raise DataError(_damaged(path))
        return json.dumps(entry["answer"], ensure_ascii=False)

    def _store(self, question: Question, answer: Json) -> str:
        text = json.dumps(answer, ensure_ascii=False, allow_nan=False)
        if self.folder is not None:
            entry = {"question": question.to_json(), "answer": answer, "digest": digest(answer)}
            path = entry_path(self.folder, question.key)
            descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=TEMPORARY)
            try:
                with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as stream:
                    json.dump(entry, stream, ensure_ascii=False, allow_nan=False)
                os.replace(temporary, path)
            except BaseException:
                os.unlink(temporary)
                raise
        return text


TEMPORARY = ".writing-"
"""What the name of a file that is being written begins with."""


def entry_path(folder: Path, key: str) -> Path:
    return folder / key[:2] / f"{key}.json"


def lock_path(folder: Path, key: str) -> Path:
    return folder / key[:2] / f"{key}.lock"


def read_entry(text: str, key: str) -> dict[str, Json] | None:
    """The entry that a file holds: ``question``, ``answer``, ``digest``. None where it is damaged or belongs to another key."""
    try:
        entry = json.loads(text)
        whole = Question.from_json(entry["question"]).key == key and digest(entry["answer"]) == entry["digest"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return entry if whole else None


def _missing(question: Question, folder: Path | None) -> str:
    subject = json.dumps(question.subject, ensure_ascii=False)
    subject = subject if len(subject) <= 200 else subject[:197] + "..."
    return (
        f"simulator.cache is replay, but {folder or 'memory'} holds no answer of tool {question.tool!r} about {subject} "
        f"(key {question.key[:12]}); run once with simulator.cache: readwrite and the same parameters."
    )


def _damaged(path: Path) -> str:
    return f"{path} is damaged: it is no whole cache entry; delete it, or run: slca simulate cache verify."
