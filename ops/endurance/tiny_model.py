"""A model of a hundred thousand random weights: real paths through a real engine, in
milliseconds. What it says is noise, and nothing here looks at that."""

from pathlib import Path

import numpy as np
from gguf import GGUFWriter
from gguf.constants import TokenType

CONTEXT_LENGTH = 512

_NUM_LAYERS = 2
_HIDDEN = 64
_INNER = 128
_NUM_HEADS = 4
_NUM_KV_HEADS = 2
_HEAD_DIM = _HIDDEN // _NUM_HEADS
_CONTROL = ("<|pad|>", "<|start|>", "<|end|>", "<|bos|>")
_END_ID = 2
_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|start|>' + message['role'] + '\n' + message['content'] + '<|end|>\n' }}"
    "{% endfor %}{{ '<|start|>assistant\n' }}"
)


def write_tiny_model(path: Path, seed: int) -> Path:
    """A Llama-style GGUF file whose vocabulary is the 256 bytes and four control tokens."""
    writer = GGUFWriter(path, "llama")
    vocab_size = _add_vocabulary(writer)
    writer.add_context_length(CONTEXT_LENGTH)
    writer.add_embedding_length(_HIDDEN)
    writer.add_block_count(_NUM_LAYERS)
    writer.add_feed_forward_length(_INNER)
    writer.add_head_count(_NUM_HEADS)
    writer.add_head_count_kv(_NUM_KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    _add_weights(writer, vocab_size, np.random.default_rng(seed))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_vocabulary(writer: GGUFWriter) -> int:
    tokens = [*_CONTROL, *_byte_characters()]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    is_control = [index < len(_CONTROL) for index in range(len(tokens))]
    writer.add_token_types([TokenType.CONTROL if c else TokenType.NORMAL for c in is_control])
    writer.add_token_merges(["h e"])
    writer.add_eos_token_id(_END_ID)
    writer.add_chat_template(_TEMPLATE)
    return len(tokens)


def _byte_characters() -> list[str]:
    """The printable stand-in that byte-level vocabularies use for each byte, and one merge."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    stand_ins = iter(range(256, 512))
    return [chr(b if b in printable else next(stand_ins)) for b in range(256)] + ["he"]


def _add_weights(writer: GGUFWriter, vocab_size: int, random: np.random.Generator) -> None:
    def matrix(name: str, num_rows: int, num_columns: int) -> None:
        weights = random.standard_normal((num_rows, num_columns), dtype=np.float32)
        writer.add_tensor(f"{name}.weight", weights / np.float32(num_columns**0.5))

    def ones(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(_HIDDEN, dtype=np.float32))

    matrix("token_embd", vocab_size, _HIDDEN)
    for index in range(_NUM_LAYERS):
        block = f"blk.{index}"
        ones(f"{block}.attn_norm")
        matrix(f"{block}.attn_q", _NUM_HEADS * _HEAD_DIM, _HIDDEN)
        matrix(f"{block}.attn_k", _NUM_KV_HEADS * _HEAD_DIM, _HIDDEN)
        matrix(f"{block}.attn_v", _NUM_KV_HEADS * _HEAD_DIM, _HIDDEN)
        matrix(f"{block}.attn_output", _HIDDEN, _NUM_HEADS * _HEAD_DIM)
        ones(f"{block}.ffn_norm")
        matrix(f"{block}.ffn_gate", _INNER, _HIDDEN)
        matrix(f"{block}.ffn_up", _INNER, _HIDDEN)
        matrix(f"{block}.ffn_down", _HIDDEN, _INNER)
    ones("output_norm")
