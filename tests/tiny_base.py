"""A model folder like a pretrained one, of a few thousand weights drawn from a seed, with a ChatML tokenizer."""

import copy
from pathlib import Path

import torch
from chat_families import stand_in
from transformers import LlamaConfig, LlamaForCausalLM


def save_base(folder: Path, tokens: tuple[str, ...] = ()) -> Path:
    """``tokens``: further special tokens, as markers of another format would be."""
    tokenizer = copy.deepcopy(stand_in("chatml").tokenizer)
    tokenizer.add_special_tokens({"additional_special_tokens": list(tokens)})
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
