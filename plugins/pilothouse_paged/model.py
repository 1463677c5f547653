"""The Llama forward pass over one batch of tokens from many sequences.

Every operation but attention treats each token alone, so tokens of decodes and of prefill
chunks go through the same matrix products; attention finds each token's context through
the batch's block tables.
"""

import torch
from torch.nn import functional

from pilothouse_paged.attention import DecodeAttention, attend
from pilothouse_paged.batch import Batch
from pilothouse_paged.shape import LlamaShape
from pilothouse_paged.weights import LayerWeights, LlamaWeights


class LlamaModel:
    """Weights, rotary table and the order of operations. Holds no state of any sequence."""

    def __init__(
        self,
        shape: LlamaShape,
        weights: LlamaWeights,
        decode_attention: DecodeAttention,
    ) -> None:
        self.shape = shape
        self.weights = weights
        self._decode_attention = decode_attention
        self._rotations = rotations(shape, weights.embedding.device)

    def forward(
        self, batch: Batch, kv_cache: torch.Tensor, num_layers: int | None = None
    ) -> torch.Tensor:
        """Write the batch's KV and return logits, [selecting rows, vocab_size], in float32.

        `kv_cache` is [layers, 2, num_blocks, block_size, num_kv_heads, head_dim]. With
        `num_layers` only the first layers run, which measures memory and means nothing.
        """
        layers = self.weights.layers[:num_layers]
        hidden = functional.embedding(batch.token_ids, self.weights.embedding)
        turns = self._rotations[batch.positions].unsqueeze(1)
        for layer, layer_cache in zip(layers, kv_cache, strict=True):
            hidden = hidden + self._attention(layer, hidden, layer_cache, batch, turns)
            hidden = hidden + self._mlp(layer, hidden)
        selecting = self._normalize(hidden[batch.selecting_rows], self.weights.output_norm)
        return functional.linear(selecting, self.weights.output).float()

    def _attention(
        self,
        layer: LayerWeights,
        hidden: torch.Tensor,
        layer_cache: torch.Tensor,
        batch: Batch,
        turns: torch.Tensor,
    ) -> torch.Tensor:
        shape = self.shape
        qkv = functional.linear(self._normalize(hidden, layer.attention_norm), layer.qkv)
        heads = qkv.view(len(hidden), -1, shape.head_dim)
        num_turned = shape.num_heads + shape.num_kv_heads
        turned = rotate(heads[:, :num_turned], turns)
        _write(layer_cache[0], batch.slot_mapping, turned[:, shape.num_heads :])
        _write(layer_cache[1], batch.slot_mapping, heads[:, num_turned:])
        queries = turned[:, : shape.num_heads].contiguous()
        attended = attend(queries, layer_cache, batch, self._decode_attention)
        return functional.linear(attended.reshape(len(hidden), -1), layer.attention_output)

    def _mlp(self, layer: LayerWeights, hidden: torch.Tensor) -> torch.Tensor:
        gate_up = functional.linear(self._normalize(hidden, layer.mlp_norm), layer.gate_up)
        gate, up = gate_up.chunk(2, dim=-1)
        return functional.linear(functional.silu(gate) * up, layer.down)

    def _normalize(self, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(hidden, weight.shape, weight, self.shape.norm_epsilon)


def rotations(shape: LlamaShape, device: torch.device) -> torch.Tensor:
    """Rotary turns as complex numbers of length one: complex64 [context_length, head_dim / 2]."""
    exponents = torch.arange(0, shape.head_dim, 2, dtype=torch.float64) / shape.head_dim
    frequencies = shape.rope_base**-exponents
    angles = torch.outer(torch.arange(shape.context_length, dtype=torch.float64), frequencies)
    return torch.polar(torch.ones_like(angles), angles).to(torch.complex64).to(device)


def rotate(heads: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """Turn neighbouring pairs of dimensions of [num_tokens, heads, head_dim].

    Pairs are neighbours because of how GGUF files permute q and k (see `weights`).
    """
    pairs = torch.view_as_complex(heads.float().reshape(*heads.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(-2).to(heads.dtype)


def _write(blocks: torch.Tensor, slot_mapping: torch.Tensor, rows: torch.Tensor) -> None:
    blocks.view(-1, *blocks.shape[-2:]).index_copy_(0, slot_mapping, rows)
