"""A Llama-style model's weights as torch tensors, from a source that knows its files.

Projections that read the same input are stored as one matrix (q, k and v; gate and up),
so that a layer is four matrix products instead of seven.

Within a head, rows of q and k lie as GGUF files of this architecture hold them. Hugging Face
rotates dimension i of a head together with i + head_dim / 2; here the two halves are
interleaved, dimension 2i is rotated together with 2i + 1, and `model.rotate` turns
neighbouring pairs. Queries and keys are permuted alike, so their products do not change; v is
not permuted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Protocol

import torch

from pilothouse_paged.shape import LlamaShape


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWeights:
    """One layer. Matrices are [outputs, inputs]."""

    attention_norm: torch.Tensor
    qkv: torch.Tensor
    """[(num_heads + 2 * num_kv_heads) * head_dim, hidden_size]"""
    attention_output: torch.Tensor
    mlp_norm: torch.Tensor
    gate_up: torch.Tensor
    """[2 * intermediate_size, hidden_size]"""
    down: torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaWeights:
    """All weights, in one dtype on one device."""

    embedding: torch.Tensor
    """[vocab_size, hidden_size]"""
    layers: tuple[LayerWeights, ...]
    output_norm: torch.Tensor
    output: torch.Tensor
    """[vocab_size, hidden_size]; the embedding itself where the file ties them."""

    @property
    def num_bytes(self) -> int:
        """Memory they occupy; what is tied counts once."""
        storages = {t.untyped_storage().data_ptr(): t.untyped_storage() for t in self._tensors()}
        return sum(storage.nbytes() for storage in storages.values())

    def _tensors(self) -> Iterator[torch.Tensor]:
        yield from (self.embedding, self.output_norm, self.output)
        for layer in self.layers:
            yield from (getattr(layer, field.name) for field in fields(layer))


class WeightSource(Protocol):
    """Where weights come from: every tensor of `LlamaShape.tensor_sizes`, checked."""

    @property
    def is_tied(self) -> bool:
        """Whether the embedding is the output matrix as well."""
        ...

    def fill(self, targets: Mapping[str, torch.Tensor]) -> None:
        """Write each named tensor into its target [rows, columns], converted to its dtype, with
        the rows of q and k in the order that `model.rotate` needs.

        Raises OSError, and ValueError for a file that changed since it was checked.
        """
        ...


def load_weights(
    source: WeightSource, shape: LlamaShape, dtype: torch.dtype, device: torch.device
) -> LlamaWeights:
    """Lay every tensor out, then fill them all. Raises as `WeightSource.fill` does."""
    layout = _Layout(dtype, device)
    weights = layout.lay_out(shape, is_tied=source.is_tied)
    source.fill(layout.targets)
    return weights


class _Layout:
    """Empty tensors, and which part of them is which tensor of the file."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self.targets: dict[str, torch.Tensor] = {}
        self._dtype = dtype
        self._device = device

    def lay_out(self, shape: LlamaShape, *, is_tied: bool) -> LlamaWeights:
        sizes = dict(shape.tensor_sizes(is_tied=is_tied))
        embedding = self._stack(sizes, "token_embd")
        return LlamaWeights(
            embedding=embedding,
            layers=tuple(self._layer(sizes, f"blk.{i}") for i in range(shape.num_layers)),
            output_norm=self._vector(sizes, "output_norm"),
            output=embedding if is_tied else self._stack(sizes, "output"),
        )

    def _layer(self, sizes: Mapping[str, tuple[int, ...]], block: str) -> LayerWeights:
        return LayerWeights(
            attention_norm=self._vector(sizes, f"{block}.attn_norm"),
            qkv=self._stack(sizes, *(f"{block}.attn_{letter}" for letter in "qkv")),
            attention_output=self._stack(sizes, f"{block}.attn_output"),
            mlp_norm=self._vector(sizes, f"{block}.ffn_norm"),
            gate_up=self._stack(sizes, f"{block}.ffn_gate", f"{block}.ffn_up"),
            down=self._stack(sizes, f"{block}.ffn_down"),
        )

    def _stack(self, sizes: Mapping[str, tuple[int, ...]], *names: str) -> torch.Tensor:
        rows = [sizes[name][0] for name in names]
        stacked = self._empty(sum(rows), sizes[names[0]][1])
        self.targets |= zip(names, stacked.split_with_sizes(rows), strict=True)
        return stacked

    def _vector(self, sizes: Mapping[str, tuple[int, ...]], name: str) -> torch.Tensor:
        self.targets[name] = self._empty(1, sizes[name][0])
        return self.targets[name][0]

    def _empty(self, num_rows: int, num_columns: int) -> torch.Tensor:
        return torch.empty(num_rows, num_columns, dtype=self._dtype, device=self._device)
