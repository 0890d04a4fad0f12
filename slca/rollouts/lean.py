"""The forward pass of Llama, Mistral, Qwen2 and Qwen3 on a CPU in float32, without what generation does not need.

The same sums as in transformers' modules, so that results differ by rounding alone. Time is saved in three places:

* matrix products go through oneDNN, on weights that are laid out for it once; those that read the same input (queries, keys and
  values; gate and up) are one. PyTorch gives float32 products to MKL, which is the slower of the two on AMD processors (measured
  on Zen 5, one thread, 28 to 256 rows: 95-110 against 190-250 GFLOP/s);
* attention of one new token per row is two batched products, in 0.7 to 0.9 of the time of the fused kernel, made for many; what
  rows have in common is read once (``slca.rollouts.prefixes``);
* the two layers of a small model cost less than the way to them: no hooks, no keyword plumbing, no mask checks.

Weights are those of the moment in which ``Lean`` was made: make one per run. ``fits`` says which models may be computed so; all
others are computed by their own ``forward``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import nn
from torch.nn import functional
from transformers import LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM
from transformers.activations import ACT2FN

from slca.rollouts.prefixes import Prefixes, attention_of_one

_KINDS = (LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM)
_LIBRARY = (nn.Embedding, nn.Linear, nn.ModuleList, type(ACT2FN["silu"]))
_OPERATIONS = ("_linear_pointwise", "_reorder_linear_weight")
"""oneDNN's, of which not every build of PyTorch has all."""
_MOST_BYTES = 2 << 30
"""Weights that are worth a second copy in memory."""


class _Store(Protocol):
    """A layer's cache: takes new keys and values (n, heads, queries, width); gives all that the pass reads."""

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]: ...


def fits(model: Any) -> bool:
    """Whether ``Lean`` computes what ``model`` does: a known kind, float32 on a CPU, no module replaced, hooked or patched."""
    return (
        type(model) in _KINDS
        and model.config.hidden_act == "silu"
        and all(hasattr(torch.ops.mkldnn, operation) for operation in _OPERATIONS)
        and not torch.is_autocast_enabled("cpu")
        and all(weight.dtype == torch.float32 and weight.device.type == "cpu" for weight in model.parameters())
        and sum(weight.nbytes for weight in model.parameters()) <= _MOST_BYTES
        and all(_is_plain(module, type(model).__module__) for module in model.modules())
    )


def _is_plain(module: nn.Module, own: str) -> bool:
    known = type(module) in _LIBRARY or type(module).__module__ == own
    return known and _is_own(module) and not (module._forward_hooks or module._forward_pre_hooks)


def _is_own(module: nn.Module) -> bool:
    """Whether ``module.forward`` is its class's. TRL's trainers put one around it, which gives the same logits."""
    found = getattr(module.forward, "__func__", None)
    return found is type(module).forward or getattr(found, "__globals__", {}).get("__name__") == "trl.trainer.utils"


class _Product:
    """x -> x W^T + b, for the weights of one linear layer or of several that read the same x."""

    def __init__(self, *layers: nn.Linear) -> None:
        self.weight = torch.ops.mkldnn._reorder_linear_weight(torch.cat([layer.weight.detach() for layer in layers]))
        biases = [layer.bias.detach() for layer in layers if layer.bias is not None]
        self.bias = torch.cat(biases) if biases else None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")
        return product


class _Norm:
    """x -> x / root mean square of x * w, over the last dimension."""

    def __init__(self, layer: Any) -> None:
        self.weight, self.epsilon = layer.weight.detach(), layer.variance_epsilon

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x, self.weight.shape, self.weight, self.epsilon)


class _Block:
    """One decoder layer. kind: which of the masks it takes, where layers differ."""

    def __init__(self, layer: Any, config: Any, kind: str) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self.kind = kind
        self.heads, self.key_heads, self.width = config.num_attention_heads, config.num_key_value_heads, attention.head_dim
        self.scale = attention.scaling
        self.before_attention, self.before_mlp = _Norm(layer.input_layernorm), _Norm(layer.post_attention_layernorm)
        self.in_attention = _Product(attention.q_proj, attention.k_proj, attention.v_proj)
        self.out_attention = _Product(attention.o_proj)
        self.norms = (_Norm(attention.q_norm), _Norm(attention.k_norm)) if hasattr(attention, "q_norm") else None
        self.in_mlp, self.out_mlp = _Product(mlp.gate_proj, mlp.up_proj), _Product(mlp.down_proj)

    def __call__(
        self,
        x: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        mask: torch.Tensor,
        store: _Store,
        shared: Prefixes | None,
    ) -> torch.Tensor:
        rows, queries, _ = x.shape
        turned = self.heads + self.key_heads
        states = self.in_attention(self.before_attention(x)).view(rows, queries, turned + self.key_heads, self.width)
        q_and_k = states[:, :, :turned]
        if self.norms:
            parts = torch.split(q_and_k, [self.heads, self.key_heads], dim=2)
            q_and_k = torch.cat([norm(part) for norm, part in zip(self.norms, parts, strict=True)], dim=2)
        first, second = q_and_k.chunk(2, dim=-1)
        q_and_k = q_and_k * cos + torch.cat((-second, first), dim=-1) * sin
        q_and_k = q_and_k.transpose(1, 2)
        query, key = q_and_k[:, : self.heads], q_and_k[:, self.heads :]
        keys, values = store.update(key, states[:, :, turned:].transpose(1, 2))
        if queries == 1:
            seen = attention_of_one(query, keys, values, mask, self.scale, shared)
        else:
            grouped = self.heads != self.key_heads
            seen = functional.scaled_dot_product_attention(query, keys, values, mask, scale=self.scale, enable_gqa=grouped)
        x = x + self.out_attention(seen.transpose(1, 2).reshape(rows, queries, self.heads * self.width))
        gate, up = self.in_mlp(self.before_mlp(x)).chunk(2, dim=-1)
        return x + self.out_mlp(functional.silu(gate) * up)


class Lean:
    """``model``, of which ``fits`` is true, with its weights of now."""

    def __init__(self, model: Any) -> None:
        kinds = getattr(model.config, "layer_types", None) or [""] * len(model.model.layers)
        self._embedding, self._rotary = model.model.embed_tokens, model.model.rotary_emb
        self._blocks = [_Block(layer, model.config, kind) for layer, kind in zip(model.model.layers, kinds, strict=True)]
        self._norm, self._head = _Norm(model.model.norm), _Product(model.lm_head)

    def __call__(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        mask: torch.Tensor | Mapping[str, torch.Tensor],
        stores: Sequence[_Store],
        shared: Prefixes | None = None,
    ) -> torch.Tensor:
        """Logits (n, vocabulary) behind the last of ids (n, queries). mask (n, 1, queries, columns) is added to scores.

        shared: what rows have in common, where queries is 1 and nothing of it is masked.
        """
        x = self._embedding(ids)
        cos, sin = (table[:, :, None] for table in self._rotary(x, positions))
        for block, store in zip(self._blocks, stores, strict=True):
            x = block(x, cos, sin, mask if isinstance(mask, torch.Tensor) else mask[block.kind], store, shared)
        return self._head(self._norm(x[:, -1]))
