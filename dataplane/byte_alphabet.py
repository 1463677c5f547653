"""GPT-2's alphabet: one printable character for each byte, in which byte-level BPE is written."""


def spell_bytes(token: str) -> bytes:
    """The bytes that a token of a byte-level vocabulary stands for."""
    try:
        return token.translate(_BYTE_BY_CHARACTER).encode("latin-1")
    except UnicodeEncodeError:
        return token.encode()  # not written in the byte alphabet: it means itself


def _byte_by_character() -> dict[int, int]:
    """Printable bytes are themselves, the others follow U+0100."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return {0x100 + index: byte for index, byte in enumerate(others)}


_BYTE_BY_CHARACTER = _byte_by_character()
