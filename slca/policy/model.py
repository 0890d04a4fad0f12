"""A policy: a causal language model, its chat format, and the version that its rollouts carry."""

import os
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from slca import params as p
from slca.chat import ChatFormat, format_of
from slca.errors import DataError
from slca.files import file_digest
from slca.progress import quiet_libraries

_LOADING = Lock()
"""transformers changes settings of the whole process while it loads a model: threads that load at once get broken weights."""


@dataclass(frozen=True)
class Policy:
    """model: a causal LM in evaluation mode. version: names the weights (digest of the file, or run and step in training).

    folder: where these very weights lie, None where nothing holds them but memory. vllm: an engine of vLLM that holds them too.
    """

    model: Any
    format: ChatFormat
    version: str
    folder: Path | None = None
    vllm: Any = None

    @property
    def max_positions(self) -> int:
        """Tokens of a conversation, at the most: what the model can take, or less where its warm start says so."""
        return int(notes(self.model).get("max_positions", self.model.config.max_position_embeddings))


def prepare_torch(threads: int) -> None:
    """One place sets torch's threads, whose number is part of what makes results repeatable, and quiets its libraries."""
    quiet_libraries()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Deterministic mode would fill new memory before it is written: an aid to find reads of it, for a tenth of the time.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def new_model(warmstart: p.Warmstart, vocab_size: int, pad_id: int, end_id: int) -> Any:
    """A freshly initialised Llama. Seeded by the caller through torch.manual_seed."""
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=warmstart.hidden_size,
        intermediate_size=int(warmstart.hidden_size * 8 / 3) // 8 * 8,
        num_hidden_layers=warmstart.layers,
        num_attention_heads=warmstart.heads,
        num_key_value_heads=warmstart.heads,
        max_position_embeddings=warmstart.max_positions,
        tie_word_embeddings=True,
        pad_token_id=pad_id,
        bos_token_id=None,
        eos_token_id=end_id,
        attn_implementation="sdpa",
    )
    return LlamaForCausalLM(config)


def notes(model: Any) -> dict[str, Any]:
    """What its warm start noted of a pretrained model, in its configuration, whose copies carry it through all later stages."""
    return dict(getattr(model.config, "slca", {}))


def load_policy(folder: Path) -> Policy:
    """The policy saved in ``folder``. Raises DataError that names what is missing."""
    weights = folder / "model.safetensors"
    for file in (folder / "config.json", folder / "tokenizer.json", weights):
        if not file.exists():
            raise DataError(f"{file} does not exist; run the stage that writes the model folder {folder}.")
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        with _LOADING:
            model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, dtype=torch.float32)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{folder} does not hold a model that can be loaded ({reason}); run its stage again.") from None
    model.eval()
    return Policy(model, format_of(tokenizer, notes(model).get("chat_format", "")), file_digest(weights)[:16], folder)
