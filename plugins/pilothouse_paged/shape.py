"""What of a Llama-style model decides its sizes, whatever kind of artifact it comes from."""

from collections.abc import Iterator
from dataclasses import dataclass

ARCHITECTURE = "llama"


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

    def tensor_sizes(self, *, is_tied: bool) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Every tensor of the architecture and its size, rows first, by the names that GGUF
        files give them (without `.weight`)."""
        hidden, inner = self.hidden_size, self.intermediate_size
        q_rows, kv_rows = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        yield "token_embd", (self.vocab_size, hidden)
        for index in range(self.num_layers):
            block = f"blk.{index}"
            yield f"{block}.attn_norm", (hidden,)
            yield f"{block}.attn_q", (q_rows, hidden)
            yield f"{block}.attn_k", (kv_rows, hidden)
            yield f"{block}.attn_v", (kv_rows, hidden)
            yield f"{block}.attn_output", (hidden, q_rows)
            yield f"{block}.ffn_norm", (hidden,)
            yield f"{block}.ffn_gate", (inner, hidden)
            yield f"{block}.ffn_up", (inner, hidden)
            yield f"{block}.ffn_down", (hidden, inner)
        yield "output_norm", (hidden,)
        if not is_tied:
            yield "output", (self.vocab_size, hidden)
