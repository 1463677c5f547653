"""Bytes of files and answers, into text."""

import gzip

from controlplane.diagnosis.sources.decoding import decoded


def test_bytes_are_unpacked_and_decoded_whoever_wrote_them() -> None:
    packed = gzip.compress(b"a 1\r\nb 2\r\n")
    assert decoded(packed) == "a 1\nb 2\n"
    assert decoded(packed[:-9]).startswith("a 1")
    assert decoded("a 1\r\n".encode("utf-16")) == "a 1\n"
    assert decoded(b"\xef\xbb\xbfa 1\n") == "a 1\n"
    assert decoded(b'a{b="\xff"} 1') == 'a{b="\ufffd"} 1'
