"""What every engine of vLLM is started with here, by the device that it finds."""

from typing import Any


def device_options() -> dict[str, Any]:
    """Options for the machine's CPU, or for its GPUs, where vLLM's own choices are good."""
    import torch

    if torch.cuda.is_available():
        return {}
    # On a CPU bfloat16 is many times slower, compiling takes longer than it saves, and a request with a seed fails where its
    # prompt is read in chunks ("CPU Generator does not use offset", vLLM 0.31).
    return {"dtype": "float32", "enforce_eager": True, "enable_chunked_prefill": False}
