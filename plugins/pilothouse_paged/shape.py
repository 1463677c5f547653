"""What of a Llama-style model decides its sizes, from the metadata of a GGUF file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataplane.gguf_metadata import GGUFError

ARCHITECTURE = "llama"

# Spellings of "end of turn" and "end of text" in the vocabularies of common models. A
# file names one of them as its end token, and models still select the others.
_END_TOKENS = frozenset(
    {"<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>", "</s>"}
)
_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaShape:
    """Sizes and constants of one model."""

    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    context_length: int
    """Tokens the model was trained for."""
    rope_base: float
    norm_epsilon: float
    end_token_ids: frozenset[int]

    @property
    def num_heads_per_kv_head(self) -> int:
        """Query heads that read the same keys and values."""
        return self.num_heads // self.num_kv_heads


def read_shape(path: Path, metadata: Mapping[str, Any]) -> LlamaShape:
    """Raises GGUFError for another architecture, a missing key, or a feature that is not built."""
    return _ShapeReader(path, metadata).shape()


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
        spelled = (token_id for token_id, token in enumerate(tokens) if token in _END_TOKENS)
        return frozenset([token_id for token_id in named if token_id is not None]).union(spelled)

    def _find(self, key: str, default: Any) -> Any:
        return self._metadata.get(f"{ARCHITECTURE}.{key}", default)

    def _get(self, key: str) -> Any:
        value = self._find(key, None)
        if value is None:
            raise GGUFError(self._path, f"it has no key {ARCHITECTURE}.{key}")
        return value
