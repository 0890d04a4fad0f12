"""Looking after a cache's folder (``slca.sgls.cache``): what it holds, what of it is damaged, and making it smaller.

Safe beside running processes: an entry that goes is a miss, and is generated again. Only files with an entry's name and place are
read or removed, whatever else is in the folder; symbolic links are not followed.
"""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from slca.errors import DataError
from slca.sgls.cache import TEMPORARY, Question, read_entry

_SHARD = re.compile(r"[0-9a-f]{2}")
_ENTRY = re.compile(r"[0-9a-f]{64}\.json")
_LOCK = re.compile(r"[0-9a-f]{64}\.lock")
_LEFT_BEHIND = 3600.0
"""Seconds after which an unfinished file is no longer being written: its writer was killed."""


@dataclass(frozen=True)
class Entry:
    """One stored answer. bytes: of its file; written: seconds since the epoch."""

    path: Path
    question: Question
    bytes: int
    written: float


@dataclass(frozen=True)
class Size:
    entries: int
    bytes: int


def entries(folder: Path) -> Iterator[Entry]:
    """The whole entries, by key. Raises DataError for a folder that does not exist."""
    for path in _files(folder, _ENTRY):
        found = _entry(path)
        if found is not None:
            yield found


def verify(folder: Path) -> list[Path]:
    """The damaged entries: cut short, changed, or under another entry's name. Raises DataError as ``entries``."""
    return [path for path in _files(folder, _ENTRY) if path.exists() and _entry(path) is None]


def size(folder: Path) -> Size:
    """Entries and bytes, damaged ones included. Raises DataError as ``entries``."""
    sizes = [path.stat().st_size for path in _files(folder, _ENTRY)]
    return Size(len(sizes), sum(sizes))


def prune(
    folder: Path,
    max_bytes: int | None = None,
    older_than: float | None = None,
    backend: str | None = None,
    now: float | None = None,
) -> Size:
    """Remove entries, and say how many and how much. Raises DataError as ``entries``.

    Damaged ones go always, and those of ``backend``, and those written more than ``older_than`` seconds before ``now`` (a time as
    ``time.time`` gives it), and then the oldest, until at most ``max_bytes`` are left. So does what killed processes left.
    """
    now = time.time() if now is None else now
    kept: list[Entry] = []
    removed: list[int] = []
    for path in _files(folder, _ENTRY):
        entry = _entry(path)
        old = entry is not None and older_than is not None and now - entry.written > older_than
        if entry is None or old or entry.question.backend == backend:
            removed.append(_remove(path))
        else:
            kept.append(entry)
    left = sum(entry.bytes for entry in kept)
    for entry in sorted(kept, key=lambda entry: (entry.written, entry.path)):
        if max_bytes is None or left <= max_bytes:
            break
        left -= entry.bytes
        removed.append(_remove(entry.path))
    _tidy(folder, now)
    return Size(len(removed), sum(removed))


def _files(folder: Path, name: re.Pattern[str]) -> Iterator[Path]:
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder; name the one that simulator.cache_folder names.")
    for shard in sorted(folder.iterdir()):
        if _SHARD.fullmatch(shard.name) and shard.is_dir() and not shard.is_symlink():
            for path in sorted(shard.iterdir()):
                if name.fullmatch(path.name) and path.is_file() and not path.is_symlink():
                    yield path


def _entry(path: Path) -> Entry | None:
    """The entry in a file; None if it is damaged, or gone meanwhile."""
    try:
        state = path.stat()
        entry = read_entry(path.read_text(encoding="utf-8"), path.stem)
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return None if entry is None else Entry(path, Question.from_json(entry["question"]), state.st_size, state.st_mtime)


def _remove(path: Path) -> int:
    """The bytes that are gone with it; 0 where another process was first."""
    try:
        removed = path.stat().st_size
        path.unlink()
    except FileNotFoundError:
        return 0
    return removed


def _tidy(folder: Path, now: float) -> None:
    for path in _files(folder, re.compile(re.escape(TEMPORARY) + ".*")):
        if now - path.stat().st_mtime > _LEFT_BEHIND:
            _remove(path)
    for path in _files(folder, _LOCK):
        try:
            with FileLock(path, timeout=0):
                path.unlink(missing_ok=True)
        except Timeout:
            continue  # somebody is generating this answer
