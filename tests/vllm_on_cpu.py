"""vLLM on a CPU, for slow tests: where its interpreter is, its settings, and what TRL leaves out there.

The environment is made by ``make vllm``; ``SLCA_VLLM_PYTHON`` may name another interpreter.
"""

import os
from functools import partial
from pathlib import Path

import pytest

PYTHON = Path(os.environ.get("SLCA_VLLM_PYTHON", Path(__file__).parents[1] / ".venv-vllm" / "bin" / "python"))

ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # threads that are bound to cores wait for whatever else runs there
    "OMP_NUM_THREADS": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
}


def let_trl_train(patch: pytest.MonkeyPatch) -> None:
    """Private hooks, without which TRL's engine cannot be given weights on a CPU, so that the stage refuses to try.

    TRL starts it in bfloat16, which is slow and inexact there; and vLLM's prepacked float32 weights keep no place into which new
    ones could be loaded.
    """
    import trl.generation.vllm_generation as generation
    import vllm._custom_ops

    from slca.sgls.backends.vllm_options import device_options
    from slca.training import stage

    patch.setattr(stage, "_needs_gpu", lambda generator: None)
    patch.setattr(vllm._custom_ops, "_supports_onednn", False)
    patch.setattr(generation, "LLM", partial(generation.LLM, **device_options()))
