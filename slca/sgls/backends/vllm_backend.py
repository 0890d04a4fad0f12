"""Backend ``vllm``: a language model under vLLM in this process, writing under the output schema (method section 5, step 4).

Prompts, seeds and the reading of answers are those of backend ``transformers``. vLLM samples by itself: equal requests give equal
answers where its kernels repeat themselves, which batches of other sizes do not, so requests go one by one. For throughput, start
vLLM as a server and use backend ``openai``.

vLLM is given the grammar that backend ``transformers`` samples under, and not the schema: with a schema it refuses keywords that
a looser grammar may ignore (``uniqueItems``, for one).
"""

from threading import Lock
from typing import Any

from slca.files import derive_seed
from slca.params import Simulator
from slca.records import Json
from slca.sgls.backends.base import BackendFailure, Request, Unreadable
from slca.sgls.backends.decoding import grammar_text
from slca.sgls.backends.prompt import read_answer, version
from slca.sgls.backends.transformers_backend import fitted_ids, identity
from slca.sgls.backends.vllm_options import device_options


class VllmBackend:
    name = "vllm"
    remembers = True

    def __init__(self, params: Simulator) -> None:
        """Raises ParamsError for a model that is not there."""
        self.model = identity(params.model)
        self.prompt_version = version(params.temperature, params.max_tokens)
        self._params = params
        self._lock = Lock()
        self._engine: Any = None

    def fill(self, request: Request) -> Json:
        with self._lock:
            if self._engine is None:
                self._engine = _engine(self._params.model)
            output = self._written(request)
        if output.finish_reason == "length":
            raise Unreadable(f"the answer is longer than the {self._params.max_tokens} tokens that it may have.")
        return read_answer(output.text)

    def _written(self, request: Request) -> Any:
        from vllm import SamplingParams
        from vllm.exceptions import VLLMValidationError
        from vllm.sampling_params import StructuredOutputsParams

        sampling = SamplingParams(
            temperature=self._params.temperature,
            max_tokens=self._params.max_tokens,
            seed=derive_seed("vllm backend", request.seed, request.subject, request.repair) >> 32,
            structured_outputs=StructuredOutputsParams(grammar=grammar_text(request.schema)),
        )
        positions = self._engine.model_config.max_model_len
        ids = fitted_ids(self._engine.get_tokenizer(), request, positions, self._params.max_tokens)
        try:
            return self._engine.generate({"prompt_token_ids": ids}, sampling, use_tqdm=False)[0].outputs[0]
        except (ValueError, VLLMValidationError) as error:  # the second is a kind of the first in some versions
            raise BackendFailure(f"vLLM refuses the request ({' '.join(str(error).split())[:200]}).") from None


def _engine(model: str) -> Any:
    from vllm import LLM

    return LLM(model=model, seed=0, **device_options())
