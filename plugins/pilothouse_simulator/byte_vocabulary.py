"""A Model for who has none: every byte is a token, and `the` is one.

`bytes.gguf` beside this file is what `python -m pilothouse_simulator.byte_vocabulary FILE` writes:
a GGUF file without weights. Gateway and replica read tokenizer and chat template from it as from
any other. Texts have about four times as many tokens as with a real vocabulary.
"""

import sys
from pathlib import Path

from gguf import GGUFWriter
from gguf.constants import TokenType

_END = "<|end|>"
_CONTROL = ("<|start|>", _END)
_MERGES = ("t h", "th e", "Ġ the")
"""A GGUF vocabulary of this kind has some."""
_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|start|>' + message['role'] + '\n' + message['content'] + '<|end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant\n' }}{% endif %}"
)


def write_byte_vocabulary(path: Path) -> None:
    """Write the file. Raises OSError."""
    merged = (merge.replace(" ", "") for merge in _MERGES)
    tokens = [*_CONTROL, *_spelled_bytes(), *merged]
    types = [TokenType.CONTROL] * len(_CONTROL)
    types += [TokenType.NORMAL] * (len(tokens) - len(types))
    writer = GGUFWriter(path, "simulator")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(list(_MERGES))
    writer.add_eos_token_id(tokens.index(_END))
    writer.add_chat_template(_TEMPLATE)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _spelled_bytes() -> list[str]:
    """As byte-level BPE writes them: printable ones as they are, others from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


if __name__ == "__main__":
    write_byte_vocabulary(Path(sys.argv[1]))
