"""The W3C trace context that a caller sends."""

import pytest

from dataplane.telemetry import (
    start_trace,
    traceparent_of,
)

_PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_a_valid_header_makes_the_request_a_child_of_the_caller() -> None:
    trace = start_trace(_PARENT, "vendor=value,other=1")
    assert trace.trace_id == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert trace.parent_span_id == "00f067aa0ba902b7"
    assert trace.span_id != trace.parent_span_id
    assert trace.is_sampled
    assert trace.trace_state == "vendor=value,other=1"


def test_a_caller_that_does_not_sample_is_followed() -> None:
    trace = start_trace(f"{_PARENT[:-2]}00", None)
    assert trace.parent_span_id == "00f067aa0ba902b7"
    assert not trace.is_sampled
    assert traceparent_of(trace).endswith("-00")


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "nonsense",
        "00-" + "0" * 32 + "-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-" + "0" * 16 + "-01",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        _PARENT.upper(),
        f"{_PARENT}-more",
        "é" * 55,
    ],
)
def test_a_header_that_is_not_valid_starts_a_new_sampled_trace(header: str | None) -> None:
    first, second = start_trace(header, "vendor=value"), start_trace(header, None)
    assert first.parent_span_id is None
    assert first.is_sampled
    assert first.trace_state == ""
    assert len({first.trace_id, second.trace_id, "4bf92f3577b34da6a3ce929d0e0e4736"}) == 3


def test_a_newer_version_of_the_header_is_read_as_the_one_we_know() -> None:
    trace = start_trace(f"cc{_PARENT[2:]}-what-the-future-holds", None)
    assert trace.parent_span_id == "00f067aa0ba902b7"


def test_a_wrong_tracestate_harms_nothing_else() -> None:
    trace = start_trace(_PARENT, "this is = not ; a state")
    assert trace.parent_span_id == "00f067aa0ba902b7"


def test_what_goes_out_comes_in_as_the_parent() -> None:
    ours = start_trace(None, None)
    theirs = start_trace(traceparent_of(ours), None)
    assert (theirs.trace_id, theirs.parent_span_id) == (ours.trace_id, ours.span_id)
