"""Work that survives being killed: a folder of partial results that belongs to exactly one computation.

A stage that runs long keeps its shards or checkpoints under ``.slca/work/<name>``, outside of what DVC deletes before a
run; the finished output is copied into place and appears by rename, and only then does the folder go. A fingerprint of
parameters, inputs, code and package versions lies in the folder; if it differs, the folder is cleared, so stale partial
results are never continued. One process at a time works in a folder; another waits for it.
"""

import fcntl
import shutil
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from slca.errors import DataError
from slca.files import digest, file_digest, read_json, replacing, write_json

_PACKAGES = ("torch", "transformers", "trl", "tokenizers", "numpy")
_COMPLETE = "complete"


@cache
def code_digest(without: tuple[str, ...] = ()) -> str:
    """Digest of this package's sources, but for those whose relative path starts with an entry of ``without``."""
    root = Path(__file__).parent
    files = {file.relative_to(root).as_posix(): file for file in sorted(root.rglob("*.py"))}
    return digest(*[[name, file_digest(file)] for name, file in files.items() if not name.startswith(without)])


def inputs_digest(paths: Sequence[Path]) -> str:
    """Digest of files, and of all files in folders, by relative name and content."""
    entries = []
    for path in paths:
        files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
        for file in files:
            if not file.exists():
                raise DataError(f"{file} does not exist; run the stage that writes it.")
            entries.append([file.name, file_digest(file)])
    return digest(*entries)


def fingerprint(params: Any, inputs: Sequence[Path], without: tuple[str, ...] = ()) -> str:
    """What a computation depends on, as one digest. without: code that has no part in it (``code_digest``)."""
    return digest(params, inputs_digest(inputs), code_digest(without), [version(package) for package in _PACKAGES])


def work_folder(root: Path, name: str) -> Path:
    """Where the computation ``name`` works."""
    return root / ".slca" / "work" / name


def belongs(folder: Path, mark: str) -> bool:
    """Whether the work folder was left by the computation with fingerprint ``mark``; one that cannot be read was not."""
    try:
        return bool(read_json(folder / "fingerprint.json") == mark)
    except DataError:
        return False


def open_work(root: Path, name: str, mark: str) -> Path:
    """The work folder of the computation with fingerprint ``mark``, cleared unless it was left by this very computation.

    Held by this process until it ends; waits while another process holds it.
    """
    folder = work_folder(root, name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _hold(folder.with_name(folder.name + ".lock"))
    if not belongs(folder, mark):
        if folder.exists():
            shutil.rmtree(folder)
        write_json(folder / "fingerprint.json", mark)
    return folder


def publish(folder: Path, outputs: Mapping[str, Path]) -> None:
    """Copy finished outputs (name in the work folder -> target) into place, then remove the work folder.

    Copied, not moved: a kill between two outputs must leave everything here for the next run.
    """
    for name, target in outputs.items():
        source = folder / name
        with replacing(target) as temporary:
            if source.is_dir():
                shutil.copytree(source, temporary, ignore=shutil.ignore_patterns(".*.tmp-*"))  # left by a kill
            else:
                shutil.copyfile(source, temporary)
    clear(folder)


def clear(folder: Path) -> None:
    """Remove a work folder, if it is there, whose results are in place. One that a kill leaves half belongs to nothing."""
    if folder.exists():
        (folder / "fingerprint.json").unlink(missing_ok=True)
        shutil.rmtree(folder)


_HELD: dict[Path, Any] = {}


def _hold(path: Path) -> None:
    if path in _HELD:
        return
    stream = path.open("w")
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"Another process works in {path.with_suffix('')}; waiting for it to end.", file=sys.stderr, flush=True)
        fcntl.flock(stream, fcntl.LOCK_EX)
    _HELD[path] = stream


class MarkComplete(TrainerCallback):  # type: ignore[misc]
    """Marks a checkpoint once all of its files are written: a kill while saving leaves one without the mark."""

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        args.distributed_state.wait_for_everyone()  # each process has written its own part
        if state.is_world_process_zero:
            (Path(args.output_dir) / f"checkpoint-{state.global_step}" / _COMPLETE).touch()


def last_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint in ``folder``; incomplete ones are removed."""
    complete = []
    for checkpoint in folder.glob("checkpoint-*"):
        if (checkpoint / _COMPLETE).exists():
            complete.append(checkpoint)
        else:
            shutil.rmtree(checkpoint)
    return max(complete, key=lambda path: int(path.name.split("-")[1]), default=None)
