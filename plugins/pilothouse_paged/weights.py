"""A Llama-style model's weights as torch tensors, from a GGUF file.

Projections that read the same input are stored as one matrix (q, k and v; gate and up),
so that a layer is four matrix products instead of seven.

GGUF files of this architecture hold the rows of q and k permuted: Hugging Face rotates
dimension i of a head together with i + head_dim / 2, and the converter interleaves the two
halves, so that here dimension 2i is rotated together with 2i + 1. Queries and keys are
permuted alike, their products do not change, and v is not permuted. The rows stay as they
are in the file, and `model.rotate` turns neighbouring pairs.
"""

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from gguf import ReaderTensor

from dataplane.gguf_metadata import GGUFError
from pilothouse_paged.gguf_tensors import dequantize_rows, read_ahead, read_tensors, shape_of
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


def load_weights(
    path: Path, shape: LlamaShape, dtype: torch.dtype, device: torch.device
) -> LlamaWeights:
    """Read and dequantize every tensor.

    Raises OSError, and GGUFError for a damaged file and for tensors that are missing, of the
    wrong shape, or of no use to this architecture.
    """
    read_ahead(path)
    loader = _Loader(path, read_tensors(path), dtype, device)
    weights = loader.lay_out(shape)
    loader.fill()
    return weights


class _Loader:
    """First lays every tensor out and checks it against the file, then fills them in parallel."""

    def __init__(
        self,
        path: Path,
        tensors: Mapping[str, ReaderTensor],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._path = path
        self._unused = dict(tensors)
        self._dtype = dtype
        self._device = device
        self._to_fill: list[tuple[torch.Tensor, ReaderTensor]] = []

    def lay_out(self, shape: LlamaShape) -> LlamaWeights:
        hidden, vocab = shape.hidden_size, shape.vocab_size
        embedding = self._matrix((vocab, hidden), "token_embd")
        is_tied = "output.weight" not in self._unused
        weights = LlamaWeights(
            embedding=embedding,
            layers=tuple(self._layer(index, shape) for index in range(shape.num_layers)),
            output_norm=self._vector(hidden, "output_norm"),
            output=embedding if is_tied else self._matrix((vocab, hidden), "output"),
        )
        if self._unused:
            raise GGUFError(
                self._path,
                f"it has {len(self._unused)} tensors that this architecture does not use, such "
                f"as {next(iter(self._unused))}: its model needs another engine",
            )
        return weights

    def fill(self) -> None:
        # numpy gives the interpreter lock up while it works, so threads do help.
        with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
            list(pool.map(_fill, *zip(*self._to_fill, strict=True)))

    def _layer(self, index: int, shape: LlamaShape) -> LayerWeights:
        hidden, inner = shape.hidden_size, shape.intermediate_size
        q_rows, kv_rows = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
        block = f"blk.{index}"
        return LayerWeights(
            attention_norm=self._vector(hidden, f"{block}.attn_norm"),
            qkv=self._stack(
                hidden,
                {
                    f"{block}.attn_q": q_rows,
                    f"{block}.attn_k": kv_rows,
                    f"{block}.attn_v": kv_rows,
                },
            ),
            attention_output=self._matrix((hidden, q_rows), f"{block}.attn_output"),
            mlp_norm=self._vector(hidden, f"{block}.ffn_norm"),
            gate_up=self._stack(hidden, {f"{block}.ffn_gate": inner, f"{block}.ffn_up": inner}),
            down=self._matrix((hidden, inner), f"{block}.ffn_down"),
        )

    def _stack(self, num_columns: int, rows_by_name: Mapping[str, int]) -> torch.Tensor:
        stacked = self._empty(sum(rows_by_name.values()), num_columns)
        parts = stacked.split_with_sizes(list(rows_by_name.values()))
        for part, (name, num_rows) in zip(parts, rows_by_name.items(), strict=True):
            self._plan(part, name, (num_rows, num_columns))
        return stacked

    def _matrix(self, size: tuple[int, int], name: str) -> torch.Tensor:
        return self._stack(size[1], {name: size[0]})

    def _vector(self, size: int, name: str) -> torch.Tensor:
        vector = self._empty(1, size)
        self._plan(vector, name, (size,))
        return vector[0]

    def _empty(self, num_rows: int, num_columns: int) -> torch.Tensor:
        return torch.empty(num_rows, num_columns, dtype=self._dtype, device=self._device)

    def _plan(self, target: torch.Tensor, name: str, expected: tuple[int, ...]) -> None:
        tensor = self._unused.pop(f"{name}.weight", None)
        if tensor is None:
            raise GGUFError(self._path, f"it has no tensor {name}.weight")
        if shape_of(tensor) != expected:
            raise GGUFError(
                self._path, f"{name}.weight is {shape_of(tensor)}, its metadata says {expected}"
            )
        self._to_fill.append((target, tensor))


def _fill(target: torch.Tensor, tensor: ReaderTensor) -> None:
    for start, rows in dequantize_rows(tensor):
        # F32 chunks are views of the read-only file, which torch warns of: copy them.
        source = torch.from_numpy(rows if rows.flags.writeable else rows.copy())
        target[start : start + rows.shape[0]].copy_(source)
