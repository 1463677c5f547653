"""Llama in plain operations.

Shares no code with the engine: tensors have the names and the order of Hugging Face style
folders, the two halves of a head are rotated against each other, attention is an explicit
triangle, and one whole sequence is computed at a time, without cache, blocks, chunks or batch.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from tests.plugins.pilothouse_paged.gguf_as_stored import read_as_stored


class PlainLlama:
    """One model, computed in `dtype`."""

    def __init__(
        self,
        config: Mapping[str, Any],
        tensors: Mapping[str, torch.Tensor],
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.config = config
        self.tensors = {name: tensor.to(dtype) for name, tensor in tensors.items()}
        self.dtype = dtype

    @classmethod
    def of_folder(cls, folder: Path) -> "PlainLlama":
        """As a Hugging Face style folder describes it."""
        tensors: dict[str, torch.Tensor] = {}
        for file in folder.glob("*.safetensors"):
            tensors |= load_file(file)
        return cls(json.loads((folder / "config.json").read_text()), tensors)

    @classmethod
    def of_gguf(cls, path: Path) -> "PlainLlama":
        """As a GGUF file describes it, dequantized."""
        return cls(*read_as_stored(path))

    def in_dtype(self, dtype: torch.dtype) -> "PlainLlama":
        """With these weights rounded to `dtype`, and computed in it."""
        return PlainLlama(self.config, self.tensors, dtype)

    def best(self, token_ids: list[int], first: int) -> list[int]:
        """The best next token after each prefix that ends at `first` or later."""
        best: list[int] = self.logits(token_ids, first).argmax(-1).tolist()
        return best

    @torch.inference_mode()
    def logits(self, token_ids: list[int], first: int) -> torch.Tensor:
        """Float32 logits after each prefix that ends at `first` or later."""
        embedding = self.tensors["model.embed_tokens.weight"]
        hidden = embedding[token_ids]
        for index in range(self.config["num_hidden_layers"]):
            layer = f"model.layers.{index}"
            hidden = hidden + self._attention(layer, self._normalize(f"{layer}.input", hidden))
            hidden = hidden + self._mlp(layer, self._normalize(f"{layer}.post_attention", hidden))
        is_tied = self.config["tie_word_embeddings"]
        output = embedding if is_tied else self.tensors["lm_head.weight"]
        return (self._scaled("model.norm", hidden[first:]) @ output.T).float()

    def _attention(self, layer: str, x: torch.Tensor) -> torch.Tensor:
        num_heads, num_kv = (
            self.config[f"num_{which}_heads"] for which in ("attention", "key_value")
        )
        q, k, v = (
            (x @ self.tensors[f"{layer}.self_attn.{letter}_proj.weight"].T)
            .view(len(x), heads, -1)
            .transpose(0, 1)
            for letter, heads in (("q", num_heads), ("k", num_kv), ("v", num_kv))
        )
        k, v = (each.repeat_interleave(num_heads // num_kv, dim=0) for each in (self._turn(k), v))
        scores = (self._turn(q) @ k.transpose(1, 2)).float() / math.sqrt(q.shape[-1])
        future = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, -math.inf).softmax(-1).to(self.dtype)
        joined = (weights @ v).transpose(0, 1).reshape(len(x), -1)
        return joined @ self.tensors[f"{layer}.self_attn.o_proj.weight"].T

    def _turn(self, heads: torch.Tensor) -> torch.Tensor:
        half = heads.shape[-1] // 2
        exponents = -torch.arange(half, dtype=torch.float64) / half
        angles = torch.arange(heads.shape[1])[:, None] * self.config["rope_theta"] ** exponents
        cos, sin = angles.cos().float().repeat(1, 2), angles.sin().float().repeat(1, 2)
        first, second = heads.float().chunk(2, dim=-1)
        turned: torch.Tensor = heads.float() * cos + torch.cat((-second, first), dim=-1) * sin
        return turned.to(self.dtype)

    def _mlp(self, layer: str, x: torch.Tensor) -> torch.Tensor:
        gate, up, down = (
            self.tensors[f"{layer}.mlp.{name}_proj.weight"] for name in ("gate", "up", "down")
        )
        gated = x @ gate.T
        return (gated * torch.sigmoid(gated) * (x @ up.T)) @ down.T

    def _normalize(self, prefix: str, x: torch.Tensor) -> torch.Tensor:
        return self._scaled(f"{prefix}_layernorm", x)

    def _scaled(self, name: str, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        mean = wide.square().mean(-1, keepdim=True)
        scaled = wide / torch.sqrt(mean + self.config["rms_norm_eps"])
        return scaled.to(self.dtype) * self.tensors[f"{name}.weight"]
