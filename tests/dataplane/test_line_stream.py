"""A line ends with CR, LF or both, wherever the chunks of the stream are cut."""

import asyncio
from collections.abc import AsyncIterator, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.line_stream import LineTooLongError, read_lines

ODD = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg"


def lines_of(chunks: Iterable[bytes], max_bytes: int = 1000) -> list[bytes]:
    async def stream() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    async def read() -> list[bytes]:
        return [line async for line in read_lines(stream(), max_bytes)]

    return asyncio.run(read())


def test_only_cr_and_lf_end_a_line() -> None:
    text = f"{ODD}\r\nsecond\rthird\n\nlast".encode()
    assert lines_of([text]) == [ODD.encode(), b"second", b"third", b"", b"last"]


@given(st.lists(st.sampled_from([b"\r", b"\n", b"\r\n", b"x", "\u2028".encode(), b""])))
def test_lines_do_not_depend_on_where_the_stream_is_cut(chunks: list[bytes]) -> None:
    assert lines_of(chunks) == lines_of([b"".join(chunks)])


def test_a_line_that_never_ends_is_given_up_at_its_bound() -> None:
    assert lines_of([b"x" * 6, b"x" * 4, b"\n"], max_bytes=10) == [b"x" * 10]
    with pytest.raises(LineTooLongError, match="longer than 10 bytes"):
        lines_of([b"x" * 6] * 2, max_bytes=10)
