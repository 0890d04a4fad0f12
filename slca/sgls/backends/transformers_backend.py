"""Backend ``transformers``: a causal language model in this process, sampled under the output schema (method section 5, step 4).

Equal requests give equal answers, in any process with the same weights, device and number of threads: every draw comes from a
generator seeded by seed, subject and repair, and torch's own generator is left as it was. The model is loaded at the first
request, in float32 on a CPU and in its own type on a GPU; one request is written at a time.
"""

import sys
from inspect import signature
from pathlib import Path
from threading import Lock
from typing import Any

from slca.errors import ParamsError
from slca.files import derive_seed, digest, file_digest
from slca.params import Simulator
from slca.records import Json
from slca.sgls.backends.base import BackendFailure, Request
from slca.sgls.backends.decoding import Vocabulary, Writing
from slca.sgls.backends.prompt import Message, messages, read_answer, version

_WEIGHTS = ("config.json", "generation_config.json", "tokenizer*", "chat_template*", "*.safetensors", "*.bin", "*.model")


def identity(model: str) -> str:
    """What the cache's key holds: a folder's name with the digest of its files, so that it may move but not change; else a name.

    Raises ParamsError for a path without a model.
    """
    folder = Path(model)
    if not folder.is_dir():
        if model.count("/") > 1 or folder.is_absolute() or model.startswith("."):
            raise ParamsError(f"simulator.model: there is no folder {model}; name one that holds config.json and weights.")
        return model
    files = sorted({file for pattern in _WEIGHTS for file in folder.glob(pattern)})
    if not (folder / "config.json").exists():
        raise ParamsError(f"simulator.model: {model} holds no config.json; name the folder that a model was saved to.")
    return f"{folder.resolve().name}@{digest([[file.name, file_digest(file)] for file in files])[:16]}"


class TransformersBackend:
    name = "transformers"
    remembers = True

    def __init__(self, params: Simulator) -> None:
        """Raises ParamsError for a model that is not there."""
        self.model = identity(params.model)
        self.prompt_version = version(params.temperature, params.max_tokens)
        self._params = params
        self._lock = Lock()
        self._writer: _Writer | None = None

    def fill(self, request: Request) -> Json:
        seed = derive_seed("transformers backend", request.seed, request.subject, request.repair)
        with self._lock:
            if self._writer is None:
                self._writer = _Writer(self._params.model)
            text = self._writer.write(request, self._params.temperature, self._params.max_tokens, seed)
        return read_answer(text)


class _Writer:
    """A loaded model. Not for several threads at once."""

    def __init__(self, source: str) -> None:
        import torch
        from safetensors import SafetensorError
        from transformers import AutoModelForCausalLM, AutoTokenizer

        device = "cuda" if torch.cuda.is_available() else "cpu"
        dtype = torch.float32 if device == "cpu" else "auto"
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=True)
            model: Any = AutoModelForCausalLM.from_pretrained(source, local_files_only=True, dtype=dtype)
        except (OSError, ValueError, RuntimeError, SafetensorError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ParamsError(f"simulator.model: {source} does not load as a causal language model ({reason}).") from None
        self._model = model.to(device).eval()
        # What holds keys and values of earlier tokens was renamed within transformers 5.
        self._past = "cache" if "cache" in signature(model.forward).parameters else "past_key_values"
        self._positions: int = getattr(model.config, "max_position_embeddings", sys.maxsize)
        size = model.get_output_embeddings().weight.shape[0]
        self._vocabulary = Vocabulary(self._tokenizer, size, _end_ids(self._tokenizer, model))

    def write(self, request: Request, temperature: float, max_tokens: int, seed: int) -> str:
        """Raises BackendFailure where the prompt leaves no room, Unreadable where the answer does not end."""
        import torch

        pending = fitted_ids(self._tokenizer, request, self._positions, max_tokens)
        writing = Writing(self._vocabulary, request.schema, min(max_tokens, self._positions - len(pending)))
        generator = torch.Generator().manual_seed(seed)
        past: Any = None
        with torch.inference_mode():
            while True:
                pending += writing.forced()
                allowed = torch.from_numpy(writing.allowed())
                choices = allowed.nonzero().flatten()
                if len(choices) == 1:
                    token = int(choices[0])  # nothing to ask the model
                else:
                    step = torch.tensor([pending], device=self._model.device)
                    output = self._model(input_ids=step, use_cache=True, logits_to_keep=1, **{self._past: past})
                    past, pending = output[self._past], []
                    token = int(choices[_drawn(output.logits[0, -1].cpu().double()[choices], temperature, generator)])
                if writing.accept(token):
                    return writing.text()
                pending.append(token)


def fitted_ids(tokenizer: Any, request: Request, positions: int, max_tokens: int) -> list[int]:
    """The prompt's tokens, its parts shortened until an answer fits behind them (at least half of ``positions``, if need be).

    Raises BackendFailure where none does.
    """
    ids: list[int] = []
    for share in (1.0, 0.5, 0.25, 0.1):
        ids = prompt_ids(tokenizer, messages(request, share))
        if len(ids) + min(max_tokens, positions // 2) <= positions:
            return ids
    raise BackendFailure(f"the shortest prompt has {len(ids)} tokens, but the model takes {positions} with the answer.")


def prompt_ids(tokenizer: Any, prompt: list[Message]) -> list[int]:
    """The prompt in the model's chat format, up to where its answer starts; plain text for a model without one."""
    from jinja2 import TemplateError

    text = "\n\n".join(message["content"] for message in prompt) + "\n\n"
    if not tokenizer.chat_template:
        return list(tokenizer.encode(text))
    # Answers under a grammar start at once: a model that can think first is told not to.
    options = {"add_generation_prompt": True, "tokenize": True, "return_dict": False, "enable_thinking": False}
    try:
        return list(tokenizer.apply_chat_template(prompt, **options))
    except TemplateError:  # a format without system messages
        return list(tokenizer.apply_chat_template([{"role": "user", "content": text}], **options))


def _drawn(scores: Any, temperature: float, generator: Any) -> int:
    """Index of one of ``scores`` (float64 logits of the allowed tokens); the largest at temperature 0."""
    import torch

    if not torch.isfinite(scores).all():
        raise BackendFailure("the model's scores are not finite numbers.")
    if temperature == 0:
        return int(scores.argmax())
    return int(torch.multinomial(torch.softmax(scores / temperature, dim=0), 1, generator=generator))


def _end_ids(tokenizer: Any, model: Any) -> list[int]:
    """Every token that ends an answer, by tokenizer and generation config."""
    configured = model.generation_config.eos_token_id if model.generation_config is not None else None
    ends = {tokenizer.eos_token_id, *(configured if isinstance(configured, list) else [configured])} - {None}
    if not ends:
        raise ParamsError("simulator.model: the tokenizer names no token that ends a text; set eos_token in its configuration.")
    return sorted(ends)
