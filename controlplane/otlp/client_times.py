"""When a client's content came, in seconds since its send, from one span of whatever origin. Pure.

Only differences inside the span are taken, so it does not matter how wrong the client's clock is.
"""

import math

from controlplane.otlp.received import ReceivedSpan
from controlplane.otlp.report import ClientTimes
from dataplane import foreign_names, genai, names
from dataplane.lifecycle import Observability
from dataplane.record import ClientReport

_MAX_CLOCK_ERROR_SECONDS = 60.0
_Known = tuple[float | None, Observability]
_UNKNOWN: _Known = (None, Observability.OBSERVED)


class BadTimesError(ValueError):
    """The span contradicts itself: content outside of it, or the final before the first."""


def read_client_times(span: ReceivedSpan) -> ClientTimes:
    """Raises BadTimesError."""
    final, final_is = _final_content(span)
    first, first_is = _first_content(span, final)
    answer = _first_answer(span)
    in_order = [at for at in (first, answer, final) if at is not None]
    if in_order != sorted(in_order):
        raise BadTimesError
    return ClientTimes(
        report=ClientReport(
            first_content=first,
            first_answer=answer,
            final_content=final,
            clock_error=_clock_error(span),
            max_chunk_gap=_seconds_within(span, names.ATTRIBUTE_CLIENT_MAX_CHUNK_GAP_SECONDS),
        ),
        first_content=first_is,
        final_content=final_is,
    )


def _final_content(span: ReceivedSpan) -> _Known:
    said = [e.at_unix_ns for e in span.events if e.name == names.EVENT_CLIENT_FINAL_CONTENT]
    if said:
        return _since_send(span, max(said)), Observability.OBSERVED
    if span.is_error or genai.ERROR_TYPE in span.attributes:
        return _UNKNOWN  # it ended, but not with the whole answer
    return _since_send(span, span.end_unix_ns), Observability.INFERRED


def _first_content(span: ReceivedSpan, final: float | None) -> _Known:
    said = [e.at_unix_ns for e in span.events if e.name == names.EVENT_CLIENT_FIRST_CONTENT]
    if said:
        return _since_send(span, min(said)), Observability.OBSERVED
    chunks = [e.at_unix_ns for e in span.events if e.name in foreign_names.FIRST_CHUNK_EVENTS]
    if chunks:
        return _since_send(span, min(chunks)), Observability.INFERRED
    first_chunk = _seconds_within(span, genai.RESPONSE_TIME_TO_FIRST_CHUNK)
    if first_chunk is not None:
        return first_chunk, Observability.INFERRED
    if span.attributes.get(genai.REQUEST_STREAM) is False and final is not None:
        return final, Observability.INFERRED  # an answer in one piece has one time
    return _UNKNOWN


def _first_answer(span: ReceivedSpan) -> float | None:
    """Of a reasoning model; only the client can say where its answer begins."""
    said = [e.at_unix_ns for e in span.events if e.name == names.EVENT_CLIENT_FIRST_ANSWER]
    return _since_send(span, min(said)) if said else None


def _since_send(span: ReceivedSpan, at_unix_ns: int) -> float:
    if not span.start_unix_ns <= at_unix_ns <= span.end_unix_ns:
        raise BadTimesError
    return (at_unix_ns - span.start_unix_ns) / 1e9


def _seconds_within(span: ReceivedSpan, name: str) -> float | None:
    """An attribute in seconds. Longer than the span itself: it contradicts it."""
    value = _number(span, name)
    if value is None:
        return None
    if not 0 <= value <= (span.end_unix_ns - span.start_unix_ns) / 1e9:
        raise BadTimesError
    return value


def _clock_error(span: ReceivedSpan) -> float | None:
    """What the client declares; without it no time of its clock is put beside another's."""
    value = _number(span, names.ATTRIBUTE_CLIENT_CLOCK_ERROR_SECONDS)
    return value if value is not None and 0 <= value <= _MAX_CLOCK_ERROR_SECONDS else None


def _number(span: ReceivedSpan, name: str) -> float | None:
    value = span.attributes.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
