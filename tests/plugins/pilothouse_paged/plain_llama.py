"""Llama as a Hugging Face style folder describes it, in plain operations.

Shares no code with the engine: tensors keep their stored names and order, the two halves of a
head are rotated against each other, attention is an explicit triangle, and one whole sequence
is computed at a time in float32.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file


class PlainLlama:
    """A folder's model."""

    def __init__(self, folder: Path) -> None:
        self.config: Mapping[str, Any] = json.loads((folder / "config.json").read_text())
        self.tensors: dict[str, torch.Tensor] = {}
        for file in folder.glob("*.safetensors"):
            self.tensors |= {name: tensor.float() for name, tensor in load_file(file).items()}

    @torch.inference_mode()
    def best(self, token_ids: list[int], first: int) -> list[int]:
        """The best next token after each prefix that ends at `first` or later."""
        best: list[int] = self.logits(token_ids, first).argmax(-1).tolist()
        return best

    @torch.inference_mode()
    def logits(self, token_ids: list[int], first: int) -> torch.Tensor:
        embedding = self.tensors["model.embed_tokens.weight"]
        hidden = embedding[token_ids]
        for index in range(self.config["num_hidden_layers"]):
            layer = f"model.layers.{index}"
            hidden = hidden + self._attention(layer, self._normalize(f"{layer}.input", hidden))
            hidden = hidden + self._mlp(layer, self._normalize(f"{layer}.post_attention", hidden))
        is_tied = self.config["tie_word_embeddings"]
        output = embedding if is_tied else self.tensors["lm_head.weight"]
        logits: torch.Tensor = self._scaled("model.norm", hidden[first:]) @ output.T
        return logits

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
        scores = self._turn(q) @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
        future = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
        attended = scores.masked_fill(future, -math.inf).softmax(-1) @ v
        joined = attended.transpose(0, 1).reshape(len(x), -1)
        return joined @ self.tensors[f"{layer}.self_attn.o_proj.weight"].T

    def _turn(self, heads: torch.Tensor) -> torch.Tensor:
        half = heads.shape[-1] // 2
        exponents = -torch.arange(half, dtype=torch.float64) / half
        angles = torch.arange(heads.shape[1])[:, None] * self.config["rope_theta"] ** exponents
        cos, sin = angles.cos().float().repeat(1, 2), angles.sin().float().repeat(1, 2)
        first, second = heads.chunk(2, dim=-1)
        turned: torch.Tensor = heads * cos + torch.cat((-second, first), dim=-1) * sin
        return turned

    def _mlp(self, layer: str, x: torch.Tensor) -> torch.Tensor:
        gate, up, down = (
            self.tensors[f"{layer}.mlp.{name}_proj.weight"] for name in ("gate", "up", "down")
        )
        gated = x @ gate.T
        return (gated * torch.sigmoid(gated) * (x @ up.T)) @ down.T

    def _normalize(self, prefix: str, x: torch.Tensor) -> torch.Tensor:
        return self._scaled(f"{prefix}_layernorm", x)

    def _scaled(self, name: str, x: torch.Tensor) -> torch.Tensor:
        epsilon = self.config["rms_norm_eps"]
        scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon)
        return x * scale * self.tensors[f"{name}.weight"]
