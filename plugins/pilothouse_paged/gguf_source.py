"""Weights from a GGUF file."""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from gguf import ReaderTensor

from dataplane.gguf_metadata import GGUFError
from pilothouse_paged.gguf_tensors import dequantize_rows, read_tensors, shape_of
from pilothouse_paged.read_ahead import read_ahead
from pilothouse_paged.shape import LlamaShape


class GGUFSource:
    """WeightSource over a mapped file; rows of q and k are in its order already."""

    def __init__(self, path: Path, shape: LlamaShape) -> None:
        """Raises OSError, and GGUFError for a damaged file and for tensors that are missing, of
        the wrong shape, or of no use to this architecture."""
        read_ahead(path)
        self._path = path
        self._tensors = read_tensors(path)
        self._check(shape)

    @property
    def is_tied(self) -> bool:
        """Files with tied embeddings leave the output matrix out."""
        return "output.weight" not in self._tensors

    def fill(self, targets: Mapping[str, torch.Tensor]) -> None:
        """Dequantize each tensor into its target."""
        sources = [self._tensors[f"{name}.weight"] for name in targets]
        # numpy gives the interpreter lock up while it works, so threads do help.
        with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
            list(pool.map(_fill, targets.values(), sources))

    def _check(self, shape: LlamaShape) -> None:
        unused = set(self._tensors)
        for name, expected in shape.tensor_sizes(is_tied=self.is_tied):
            tensor = self._tensors.get(f"{name}.weight")
            if tensor is None:
                raise GGUFError(self._path, f"it has no tensor {name}.weight")
            if shape_of(tensor) != expected:
                raise GGUFError(
                    self._path, f"{name}.weight is {shape_of(tensor)}, its metadata says {expected}"
                )
            unused.remove(f"{name}.weight")
        if unused:
            raise GGUFError(
                self._path,
                f"it has {len(unused)} tensors that this architecture does not use, such as "
                f"{min(unused)}: its model needs another engine",
            )


def _fill(target: torch.Tensor, tensor: ReaderTensor) -> None:
    for start, rows in dequantize_rows(tensor):
        # F32 chunks are views of the read-only file, which torch warns of: copy them.
        source = torch.from_numpy(rows if rows.flags.writeable else rows.copy())
        target[start : start + rows.shape[0]].copy_(source)
