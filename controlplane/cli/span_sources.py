"""Spans from files of OTLP trace data as JSON, as a collector's file exporter writes them."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from controlplane.cli.record_sources import RecordSourceError
from controlplane.otlp.json_form import decode_json
from controlplane.otlp.received import NotDecodableError, ReceivedSpan, TooLargeError
from dataplane.simulation.fitting.vllm_requests import EngineSpan


def read_span_files(names: Iterable[str]) -> list[EngineSpan]:
    """Of all files, `-` standing for standard input. Raises RecordSourceError."""
    return [_engine_span(span) for name in names for span in _read(name)]


def _read(name: str) -> Iterator[ReceivedSpan]:
    """A request a line; or one request, over as many lines as it likes."""
    data = _bytes(name)
    place = "<stdin>" if name == "-" else name
    lines = [(number, line) for number, line in enumerate(data.splitlines(), 1) if line.strip()]
    if lines and not _is_whole(lines[0][1]):
        yield from _decode(place, data)
        return
    for number, line in lines:
        yield from _decode(f"{place}:{number}", line)


def _is_whole(line: bytes) -> bool:
    return line.strip().endswith(b"}")


def _bytes(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise RecordSourceError(f"cannot read {name}: {error.strerror}") from error


def _decode(place: str, data: bytes) -> list[ReceivedSpan]:
    try:
        return decode_json(data)
    except (NotDecodableError, TooLargeError) as error:
        raise RecordSourceError(
            f"{place}: {error}. Name files of OTLP trace data as JSON, one request a line, as the "
            f"file exporter of an OpenTelemetry collector writes them"
        ) from error


def _engine_span(span: ReceivedSpan) -> EngineSpan:
    return EngineSpan(
        name=span.name,
        service=span.service,
        start_unix_ns=span.start_unix_ns,
        end_unix_ns=span.end_unix_ns,
        attributes=span.attributes,
    )
