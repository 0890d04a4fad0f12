"""Files that are either whole or absent, and the canonical forms that hashes are taken over."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slca.errors import DataError


def canonical_json(value: Any) -> str:
    """One spelling per JSON value: sorted keys, no spaces, no escapes of non-ASCII text. NaN is refused (ValueError)."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def digest(*values: Any) -> str:
    """Hex SHA-256 of the canonical JSON of ``values``."""
    return hashlib.sha256(canonical_json(list(values)).encode()).hexdigest()


def derive_seed(*values: Any) -> int:
    """A 63-bit seed that depends on every value and on nothing else (not on the process, order or platform)."""
    return int(digest(*values)[:16], 16) >> 1


def file_digest(path: Path) -> str:
    """Hex SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary sibling of ``path`` to write; on success it takes the place of ``path`` by rename, on failure it goes.

    Works for files and for folders. A folder that stands in the way is removed only once the new one is complete.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    _remove(temporary)
    try:
        yield temporary
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        temporary.replace(path)
    finally:
        _remove(temporary)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as indented JSON with a final newline; keys keep their order; NaN is refused."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file. Raises DataError that names the file and the place of the fault."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; run the stage that writes it.") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not valid JSON ({error}); write it again.") from None


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
