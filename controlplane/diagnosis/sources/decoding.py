"""Bytes of a file or an answer into text, whatever wrote them."""

import codecs
import zlib

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP = 16 + zlib.MAX_WBITS
_MOST_BYTES = 1 << 30
"""Unpacked: a small file may claim any size, and a log of millions of lines is smaller."""


def decoded(data: bytes, max_bytes: int = _MOST_BYTES) -> str:
    """gzip is unpacked (as much of it as there is, and at most `max_bytes`), a byte order mark
    obeyed, lines end as they should; bytes that are no UTF-8 become replacement characters."""
    if data.startswith(_GZIP_MAGIC):
        data = unpacked(data, max_bytes)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = data.decode("utf-16", errors="replace")
    else:
        text = data.decode("utf-8-sig", errors="replace")
    return text.replace("\r\n", "\n")


def unpacked(data: bytes, max_bytes: int) -> bytes:
    """At most so many bytes of what gzip packed. Raises zlib.error for what is no gzip."""
    return zlib.decompressobj(_GZIP).decompress(data, max_bytes)
