"""The generator on vLLM's engine in this process. Its own scheduler batches, and its prefix cache spares what was read before.

The engine is one that vLLM starts on the policy's folder and that a process keeps, since starting takes long; or the one that
TRL keeps in training, whose weights TRL brings up to date before each step's rollouts.

Log-probs are those of the distribution that was sampled from (``processed_logprobs``: after the temperature). Equal seeds give
equal rollouts up to floating-point ties: batches of other sizes may round differently, in bfloat16 visibly so.
"""

import gc
import os
from itertools import count
from pathlib import Path
from typing import Any

from slca.errors import DataError, ParamsError
from slca.params import Rollouts
from slca.policy.model import Policy
from slca.rollouts.generator import Turn, context
from slca.rollouts.vllm_turns import VllmTurns
from slca.sgls.backends.vllm_options import device_options

_STARTED: dict[tuple[Any, ...], Any] = {}
"""The engine of this process, if any. Never two: each takes its share of the GPU."""

_NUMBERS = count()


class VllmGenerator(VllmTurns):
    """A ``slca.rollouts.generator.Generator``. engine: a ``vllm.LLMEngine`` that no one else steps meanwhile."""

    def __init__(self, engine: Any, stop_ids: frozenset[int], temperature: float) -> None:
        super().__init__(stop_ids, temperature)
        self._engine = engine
        self._number = next(_NUMBERS)  # requests that an interrupted generator left in the engine are not taken for ours
        self._asked: dict[str, int] = {}

    def _ask(self, key: int, ids: list[int], sampling: dict[str, Any]) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        name = f"{self._number}/{key}"
        self._asked[name] = key
        settings = SamplingParams(**sampling, detokenize=False, output_kind=RequestOutputKind.FINAL_ONLY)
        self._engine.add_request(name, {"prompt_token_ids": list(ids)}, settings)

    def step(self) -> list[tuple[int, Turn]]:
        ended = []
        for output in self._engine.step():
            if output.request_id in self._asked:
                key, sampled = self._asked.pop(output.request_id), output.outputs[0]
                logprobs = [of[token].logprob for token, of in zip(sampled.token_ids, sampled.logprobs, strict=True)]
                ended.append((key, self._answered(key, sampled.token_ids, logprobs)))
        return ended


def engine_of(policy: Policy, rollouts: Rollouts) -> Any:
    """An engine that holds the policy's weights, started where there is none. Raises ParamsError where it cannot start."""
    if policy.vllm is not None:
        return policy.vllm
    if policy.folder is None:
        raise DataError(f"Policy {policy.version} lies in no folder that vLLM could load; use another rollouts.generator.")
    options = {
        "max_model_len": context(policy, rollouts),
        "max_num_seqs": rollouts.max_rows,
        "gpu_memory_utilization": rollouts.vllm_memory,
        "tensor_parallel_size": rollouts.vllm_tensor_parallel,
    }
    wanted = (policy.folder, policy.version, *options.values())
    if wanted not in _STARTED:
        _STARTED.clear()
        gc.collect()
        _STARTED[wanted] = _start(policy.folder, options)
    return _STARTED[wanted]


def _start(folder: Path, options: dict[str, Any]) -> Any:
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    from vllm import EngineArgs, LLMEngine

    try:
        return LLMEngine.from_engine_args(
            EngineArgs(
                model=str(folder),
                seed=0,
                enable_prefix_caching=True,
                logprobs_mode="processed_logprobs",
                disable_log_stats=True,
                **options,
                **device_options(),
            )
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise ParamsError(
            f"rollouts.generator vllm: vLLM does not start on {folder} ({' '.join(str(error).split())[:300]}). Where memory is "
            "short, lower rollouts.max_context or raise rollouts.vllm_memory; its log above says more."
        ) from None
