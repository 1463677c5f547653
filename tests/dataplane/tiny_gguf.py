"""A GGUF file with a vocabulary small enough to write in a millisecond and whole enough to use.

Ids 0 to 3 are control tokens, 4 is user-defined, then come all 256 bytes and a few merges.
"""

from pathlib import Path

from gguf import GGUFWriter
from gguf.constants import TokenType

END_ID = 2
THINK_ID = 4
FIRST_BYTE_ID = 5
MERGES = ("h e", "l l", "he ll", "hell o", "Ġ w")
TEMPLATE = (
    "{% for message in messages %}"
    "{% if message.role == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}"
    "{{ '<|start|>' + message['role'] + '\n' + message['content'] | trim + '<|end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant\n' }}{% endif %}"
)


def write_tiny_gguf(path: Path, **overrides: object) -> Path:
    """Write the file. Overrides: pre, model, template, bos (put before raw prompts)."""
    tokens = tiny_tokens()
    types = [TokenType.CONTROL] * 4 + [TokenType.USER_DEFINED]
    types += [TokenType.NORMAL] * (len(tokens) - len(types))
    writer = GGUFWriter(path, "llama")
    writer.add_tokenizer_model(str(overrides.get("model", "gpt2")))
    writer.add_tokenizer_pre(str(overrides.get("pre", "smollm")))
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(list(MERGES))
    writer.add_eos_token_id(END_ID)
    writer.add_bos_token_id(3)
    writer.add_add_bos_token(bool(overrides.get("bos", False)))
    writer.add_float32("tiny.share", 0.25)
    writer.add_array("tiny.numbers", [1, -2, 3])
    template = overrides.get("template", TEMPLATE)
    if template is not None:
        writer.add_chat_template(str(template))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tiny_tokens() -> list[str]:
    """The vocabulary, by id."""
    tokens = ["<|pad|>", "<|start|>", "<|end|>", "<|bos|>", "<think>", *_alphabet()]
    return tokens + [merge.replace(" ", "") for merge in MERGES]


def _alphabet() -> list[str]:
    """GPT-2's character for each byte, in byte order: written out apart from the code's table."""
    kept = set(range(33, 127)) | set(range(161, 173)) | set(range(174, 256))
    alphabet, num_moved = [], 0
    for byte in range(256):
        alphabet.append(chr(byte) if byte in kept else chr(256 + num_moved))
        num_moved += byte not in kept
    return alphabet
