"""What our own replicas write is read like any engine's log."""

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.sources.log import LogReader

_RECORD = (
    '{{"event": "{}", "level": "info", "logger": "dataplane.host", "at": "2026-01-01T00:00:38Z"}}'
)


def test_a_start_tells_the_seconds_of_its_stages() -> None:
    reader = LogReader()
    said = "serving; acquire 1.0 s, load 32.0 s, compile 3.0 s, warm_up 2.0 s"
    reader.read([_RECORD.format(said), _RECORD.format("serving")])
    first, second = reader.finish().events
    assert first.kind is LogKind.READY
    assert dict(first.fields) == {
        "acquire_seconds": 1,
        "load_seconds": 32,
        "compile_seconds": 3,
        "warm_up_seconds": 2,
    }
    assert (second.kind, dict(second.fields)) == (LogKind.READY, {})


def test_a_request_that_is_not_released_is_told_with_its_name() -> None:
    reader = LogReader()
    reader.read([_RECORD.format("request r-7 finished 61.5 s ago and is not released: a leak")])
    (event,) = reader.finish().events
    assert event.kind is LogKind.OUTPUT_WITHOUT_OWNER
    assert event.words["request_id"] == "r-7"
    assert event.fields["seconds"] == 61.5
