"""A model's shape from the metadata of a GGUF file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dataplane.end_tokens import END_TOKENS
from dataplane.gguf_metadata import GGUFError, read_gguf_metadata
from pilothouse_paged.shape import ARCHITECTURE, LlamaShape

_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")


def read_gguf_shape(path: Path) -> LlamaShape:
    """Raises OSError, and GGUFError for another architecture, a missing key, or a feature that
    is not built."""
    return _ShapeReader(path, read_gguf_metadata(path)).shape()


class _ShapeReader:
    def __init__(self, path: Path, metadata: Mapping[str, Any]) -> None:
        self._path = path
        self._metadata = metadata

    def shape(self) -> LlamaShape:
        architecture = self._metadata.get("general.architecture")
        if architecture != ARCHITECTURE:
            raise GGUFError(
                self._path,
                f"its architecture is {architecture!r}; the paged engine runs {ARCHITECTURE!r} "
                f"only: choose another model, or attach an engine that runs this one",
            )
        self._refuse_unsupported()
        hidden_size, num_heads = self._get("embedding_length"), self._get("attention.head_count")
        shape = LlamaShape(
            num_layers=self._get("block_count"),
            hidden_size=hidden_size,
            intermediate_size=self._get("feed_forward_length"),
            num_heads=num_heads,
            num_kv_heads=self._find("attention.head_count_kv", num_heads),
            head_dim=self._find("attention.key_length", hidden_size // num_heads),
            vocab_size=len(self._metadata.get("tokenizer.ggml.tokens", ())),
            context_length=self._get("context_length"),
            rope_base=float(self._find("rope.freq_base", 10000.0)),
            norm_epsilon=float(self._get("attention.layer_norm_rms_epsilon")),
            end_token_ids=self._end_token_ids(),
        )
        self._check(shape)
        return shape

    def _refuse_unsupported(self) -> None:
        scaling = self._find("rope.scaling.type", "none")
        if scaling != "none":
            raise GGUFError(self._path, f"its rotary scaling {scaling!r} is not supported")
        if self._find("expert_count", 0):
            raise GGUFError(self._path, "it is a mixture of experts, which is not supported")

    def _check(self, shape: LlamaShape) -> None:
        if shape.num_heads % shape.num_kv_heads:
            raise GGUFError(
                self._path, f"{shape.num_heads} heads cannot share {shape.num_kv_heads} KV heads"
            )
        rotary = self._find("rope.dimension_count", shape.head_dim)
        values = self._find("attention.value_length", shape.head_dim)
        if not rotary == values == shape.head_dim:
            raise GGUFError(
                self._path,
                f"heads of {shape.head_dim} with {rotary} rotary dimensions and values of "
                f"{values} are not supported; all three must be equal",
            )

    def _end_token_ids(self) -> frozenset[int]:
        named = (self._metadata.get(f"tokenizer.ggml.{key}") for key in _END_KEYS)
        tokens = self._metadata.get("tokenizer.ggml.tokens", ())
        spelled = (token_id for token_id, token in enumerate(tokens) if token in END_TOKENS)
        return frozenset([token_id for token_id in named if token_id is not None]).union(spelled)

    def _find(self, key: str, default: Any) -> Any:
        return self._metadata.get(f"{ARCHITECTURE}.{key}", default)

    def _get(self, key: str) -> Any:
        value = self._find(key, None)
        if value is None:
            raise GGUFError(self._path, f"it has no key {ARCHITECTURE}.{key}")
        return value
