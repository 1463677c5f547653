"""A Model whose every word is long: answers that are heavy to keep, of few tokens.

With a vocabulary of bytes an answer's text is a hundredth of what wraps it on the wire, and a
gateway keeps next to nothing of it however slowly it is read.
"""

import random
from pathlib import Path

from gguf import GGUFWriter
from gguf.constants import TokenType

WORD_BYTES = 512
_NUM_WORDS = 2048
"""So many that nearly all tokens of an answer are words."""
_END = "<|end|>"


def write_long_words(path: Path) -> Path:
    """Write the file, and return its path."""
    draw = random.Random(7)
    words = [
        "".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=WORD_BYTES)) for _ in range(_NUM_WORDS)
    ]
    tokens = [_END, *_spelled_bytes(), *words]
    writer = GGUFWriter(path, "simulator")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([TokenType.CONTROL, *[TokenType.NORMAL] * (len(tokens) - 1)])
    writer.add_token_merges(["t h"])
    writer.add_eos_token_id(0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _spelled_bytes() -> list[str]:
    """As byte-level BPE writes them, and what it merges of them."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    spelled = [chr(byte if byte in printable else next(others)) for byte in range(256)]
    return [*spelled, "th"]
