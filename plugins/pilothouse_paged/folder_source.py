"""Weights from a Hugging Face style folder.

Files are mapped one after the other. A tensor is copied once, from the mapping to where the
engine keeps it, converted and put in order on the way; then its file is unmapped.
"""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from dataplane.artifact import ModelFileError
from dataplane.model_folder import ModelFolder
from pilothouse_paged.folder_tensors import find_tensors
from pilothouse_paged.read_ahead import read_ahead
from pilothouse_paged.shape import LlamaShape


class FolderSource:
    """WeightSource over the safetensors files of a folder."""

    def __init__(self, folder: ModelFolder, shape: LlamaShape) -> None:
        """Raises ModelFileError for tensors that do not fit the shape."""
        self._found = find_tensors(folder, shape)
        self._head_dim = shape.head_dim

    @property
    def is_tied(self) -> bool:
        """As config.json says."""
        return self._found.is_tied

    def fill(self, targets: Mapping[str, torch.Tensor]) -> None:
        """Copy each tensor into its target, file by file."""
        names_by_file: dict[Path, list[str]] = {}
        for name in targets:
            names_by_file.setdefault(self._found.tensors[name].file, []).append(name)
        for file, names in names_by_file.items():
            self._fill_from(file, {name: targets[name] for name in names})

    def _fill_from(self, file: Path, targets: Mapping[str, torch.Tensor]) -> None:
        read_ahead(file)
        try:
            with safe_open(file, framework="pt") as opened:
                stored = [opened.get_tensor(self._found.tensors[name].name) for name in targets]
        except SafetensorError as error:
            raise ModelFileError(file, f"it changed while it was loaded: {error}") from error
        # The mapping lives as long as its tensors; copying gives the interpreter lock up.
        with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
            list(pool.map(self._fill, targets, targets.values(), stored))

    def _fill(self, name: str, target: torch.Tensor, stored: torch.Tensor) -> None:
        if name.endswith((".attn_q", ".attn_k")):
            interleave_halves(target, stored, self._head_dim)
        else:
            target.copy_(stored.view_as(target))


def interleave_halves(target: torch.Tensor, stored: torch.Tensor, head_dim: int) -> None:
    """Copy [heads * head_dim, columns] so that rows i and i + head_dim / 2 of a head become its
    rows 2i and 2i + 1 (see `weights`)."""
    halves = stored.view(-1, 2, head_dim // 2, stored.shape[1])
    target.view(-1, head_dim // 2, 2, stored.shape[1]).copy_(halves.transpose(1, 2))
