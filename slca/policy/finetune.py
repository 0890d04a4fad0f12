"""The warm start of a pretrained base: full weights or LoRA adapters, one conversation at a time.

Conversations go through the model one by one and their gradients are added up: so none is padded, none sees another, and logits
are computed at the assistant's tokens alone, which on a model with a large vocabulary is a good part of the work. On
a CPU the matrix products of a single conversation are large enough. The loss is the mean over the assistant tokens of the whole
batch, as if it had been computed at once.
"""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer

from slca import params as p
from slca.chat import ChatFormat, format_of
from slca.errors import DataError, MissingDependency
from slca.policy.demonstrations import IGNORED
from slca.policy.pretrained import base_folder

_ALPHA_PER_RANK = 2


def load(settings: p.Warmstart, root: Path) -> tuple[Any, ChatFormat]:
    """The base and its chat format. What later stages must know of it is noted in the model's configuration."""
    folder = base_folder(settings, root)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    try:
        chat = format_of(tokenizer, settings.chat_format)
    except DataError as error:
        raise DataError(f"warmstart.base {settings.base!r}, warmstart.chat_format {settings.chat_format!r}: {error}") from None
    model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, dtype=torch.float32)
    positions = min(settings.max_positions, int(model.config.max_position_embeddings))
    model.config.slca = {"chat_format": chat.name, "max_positions": positions}
    return model, chat


def adapted(model: Any, settings: p.Warmstart) -> Any:
    """``model`` as it is trained: itself, or frozen with adapters on all matrices inside its layers."""
    if not settings.lora_rank:
        return model
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise MissingDependency("warmstart.lora_rank needs the package peft: install slca[lora], or set it to 0.") from None
    rank = settings.lora_rank
    config = LoraConfig(r=rank, lora_alpha=_ALPHA_PER_RANK * rank, target_modules="all-linear", task_type="CAUSAL_LM")
    return get_peft_model(model, config)


def merged(model: Any) -> Any:
    """A plain model, whatever it was trained as."""
    return model.merge_and_unload() if hasattr(model, "merge_and_unload") else model


class RowTrainer(Trainer):  # type: ignore[misc]
    """Batches of one conversation: ``input_ids``, ``attention_mask`` and ``labels``, each (1, T)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.model_accepts_loss_kwargs = True  # so that the number of labels in the whole batch is handed over

    def compute_loss(
        self, model: Any, inputs: dict[str, torch.Tensor], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        loss, count = row_loss(model, inputs["input_ids"], inputs["labels"])
        return loss / (count if num_items_in_batch is None else num_items_in_batch) * self.accelerator.num_processes


def row_loss(model: Any, ids: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Sum of the negative log-probs (nats) of the labels that are not IGNORED, and how many these are. ids, labels: (1, T)."""
    before = (labels[0, 1:] != IGNORED).nonzero().squeeze(1)
    logits = model(input_ids=ids, use_cache=False, logits_to_keep=before).logits[0]
    return torch.nn.functional.cross_entropy(logits.float(), labels[0, before + 1], reduction="sum"), len(before)
