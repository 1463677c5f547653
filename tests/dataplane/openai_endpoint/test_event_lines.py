"""Payloads of server-sent events, however the bytes are cut."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.line_stream import LineTooLongError
from dataplane.openai_endpoint.event_lines import EventLines

ODD = "one\u2028two\u0085three".encode()
"""What only a reader of text takes for line ends."""
STREAM = b'data: {"a":1}\n\n: ping\r\n\r\nevent: x\ndata:' + ODD + b"\r\rdata: [DONE]\n\ndata: last"
PAYLOADS = [b'{"a":1}', ODD, b"[DONE]", b"last"]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_the_payloads_are_the_same_wherever_the_bytes_are_cut(cuts: list[int]) -> None:
    bounds = [0, *sorted(cuts), len(STREAM)]
    lines = EventLines(1000)
    told: list[bytes] = []
    for start, end in itertools.pairwise(bounds):
        told += lines.feed(STREAM[start:end])
    assert told + lines.end() == PAYLOADS


def test_a_line_without_an_end_is_held_up_to_a_bound() -> None:
    lines = EventLines(100)
    assert lines.feed(b"data: " + 50 * b"x") == []
    with pytest.raises(LineTooLongError):
        lines.feed(60 * b"x")
