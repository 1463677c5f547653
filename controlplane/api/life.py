"""A request's life as a waterfall: its phases, what happened inside them, what nobody saw.

Pure: from the full record where it was kept, otherwise from the compact row's offsets, and
then it says what those cannot tell.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controlplane.api.unseen import is_end_unseen
from dataplane.client_waits import client_waits, seconds_of, waits_between
from dataplane.lifecycle import AnswerPart, Delivery, Disposition, Event, EventKind, Observability
from dataplane.record import RequestRecord
from dataplane.spans import SpanInterval, span_intervals

if TYPE_CHECKING:  # whoever only reads answers (the command line) does without the database
    from controlplane.store.request_tables import RequestRow

_WORTH_SAYING_SECONDS = 0.0005
_ROW_REMARK = (
    "Only the compact row of this request was kept: its chunks, tokens and preemptions "
    "are not known, nor which of these times the engine showed and which were inferred."
)

_MARKED = {
    EventKind.PREFILL_CHUNK: "prefill",
    EventKind.TOKENS: "decode",
    EventKind.PREEMPTED: "decode",
    EventKind.RESUMED: "decode",
    EventKind.PAUSED: "decode",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something that happened inside a phase."""

    kind: str
    at_seconds: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One bar of the waterfall."""

    name: str
    """queue, prefill, first_content_transit, decode, delivery or cleanup."""
    start_seconds: float
    end_seconds: float | None
    """None: it never closed, as far as anyone knows."""
    observability: str
    """observed or inferred; unknown where only the compact row was kept."""
    boundary: str
    error_seconds: float
    """How much later than said its start or end may have been."""
    note: str
    marks: list[Mark] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """The whole waterfall."""

    source: str
    """record, or compact row."""
    total_seconds: float
    """From arrival until the last thing known, cleanup included."""
    phases: list[Phase]
    remarks: list[str]
    """What the picture cannot show, in words."""


def life_of_record(record: RequestRecord) -> Life:
    """From the events."""
    phases = [
        _phase(interval, record)
        for interval in span_intervals(record)
        if interval.name != "request"
    ]
    times = [event.at for event in record.events]
    return Life(
        source="record",
        total_seconds=max(times + _ends(phases), default=0.0),
        phases=phases,
        remarks=_remarks(record, phases),
    )


def life_of_row(row: "RequestRow") -> Life:
    """From the compact row's offsets."""
    bounds = (
        ("queue", "server", 0.0, _first_known(row.scheduled, row.finished, row.last_write)),
        ("prefill", "engine", row.scheduled, _first_known(row.first_token, row.finished)),
        ("decode", "engine", row.first_token, row.finished),
        ("delivery", "server", row.first_write, row.last_write),
        ("cleanup", "engine", row.finished, row.released),
    )
    phases = [
        Phase(
            name=name,
            start_seconds=start,
            end_seconds=end,
            observability="unknown",
            boundary=boundary,
            error_seconds=0.0,
            note="",
        )
        for name, boundary, start, end in bounds
        if start is not None and (end is not None or name not in ("queue", "cleanup"))
    ]
    remarks = [_ROW_REMARK]
    if is_end_unseen(row.disposition):
        remarks += _lost_remarks(row.delivery)
    return Life(
        source="compact row",
        total_seconds=max(_ends(phases) + [phase.start_seconds for phase in phases], default=0.0),
        phases=phases,
        remarks=remarks,
    )


def _phase(interval: SpanInterval, record: RequestRecord) -> Phase:
    marks = [_mark(event) for event in record.events if _MARKED.get(event.kind) == interval.name]
    if interval.name == "prefill":
        marks = [mark for mark in marks if interval.end is None or mark.at_seconds <= interval.end]
    return Phase(
        name=interval.name,
        start_seconds=interval.start,
        end_seconds=interval.end,
        observability=interval.observability.value,
        boundary=interval.boundary.value,
        error_seconds=max(interval.start_error, interval.end_error),
        note=_note(interval, record),
        marks=marks,
    )


def _mark(event: Event) -> Mark:
    words = {
        EventKind.PREFILL_CHUNK: f"{event.num_tokens or 0} prompt tokens computed, "
        f"{event.num_cached_tokens or 0} reused",
        EventKind.TOKENS: f"{event.num_tokens or 0} tokens selected",
    }
    text = words.get(event.kind) or event.reason or event.kind.value
    if event.begins is not None:
        text += f", {_BEGINS[event.begins]}"
    return Mark(kind=event.kind.value, at_seconds=event.at, text=text)


_BEGINS = {
    AnswerPart.REASONING: "the first of its reasoning",
    AnswerPart.ANSWER: "the first of its answer",
}


def _note(interval: SpanInterval, record: RequestRecord) -> str:
    match interval.name:
        case "queue":
            return _queue_note(record)
        case "prefill":
            return _prefill_note(record, interval)
        case "decode":
            return _decode_note(record)
        case "delivery":
            return _delivery_note(interval, record)
        case "cleanup":
            if interval.end is None:
                return "never released, as far as anyone saw"
            return _reason_of(record, EventKind.RELEASED) or ""
    return ""


def _delivery_note(interval: SpanInterval, record: RequestRecord) -> str:
    """The first fragment's own wait is over when delivery opens: it is told apart."""
    waits = client_waits(record.events)
    end = interval.start if interval.end is None else interval.end
    before = seconds_of(waits_between(waits, 0.0, interval.start))
    during = seconds_of(waits_between(waits, interval.start, end))
    parts = [record.delivery.value]
    if before > _WORTH_SAYING_SECONDS:
        parts.append(f"client took {before * 1000:.1f} ms to accept the first fragment")
    if during > _WORTH_SAYING_SECONDS:
        parts.append(f"client made us wait {during * 1000:.1f} ms")
    return ", ".join(parts)


def _queue_note(record: RequestRecord) -> str:
    if is_end_unseen(record.disposition.value):
        return "how far it came is unknown"
    if not record.replica_ids and record.disposition is not Disposition.STOP:
        return f"ended here: {record.disposition.value}"
    return ""


def _prefill_note(record: RequestRecord, interval: SpanInterval) -> str:
    chunks = [
        event
        for event in record.events
        if event.kind is EventKind.PREFILL_CHUNK
        and (interval.end is None or event.at <= interval.end)
    ]
    parts = []
    if len(record.replica_ids) > 1:
        parts.append(f"{len(record.replica_ids)} attempts")
    if chunks:
        parts.append(f"{len(chunks)} {'chunk' if len(chunks) == 1 else 'chunks'}")
    if record.num_cached_tokens is not None and record.num_prompt_tokens is not None:
        parts.append(f"{record.num_cached_tokens} of {record.num_prompt_tokens} tokens reused")
    return ", ".join(parts)


def _decode_note(record: RequestRecord) -> str:
    steps = sum(1 for event in record.events if event.kind is EventKind.TOKENS)
    preemptions = sum(1 for event in record.events if event.kind is EventKind.PREEMPTED)
    what = "groups of steps" if record.num_joined_events else "step" if steps == 1 else "steps"
    note = f"{steps} {what}"
    if preemptions:
        note += f", preempted {preemptions} ×" if preemptions > 1 else ", preempted once"
    return note


def _remarks(record: RequestRecord, phases: list[Phase]) -> list[str]:
    remarks = []
    inferred = [phase.name for phase in phases if phase.observability == "inferred"]
    if inferred:
        remarks.append(
            f"Inferred, drawn dashed: {', '.join(inferred)}. Engine {record.engine or 'unknown'} "
            "does not show these moments; they are what the gateway could see from outside."
        )
    if record.replica_ids and record.cleanup_observability is Observability.UNOBSERVABLE:
        remarks.append(
            "Cleanup is unobservable here: nobody can say when the memory of this request was free."
        )
    if is_end_unseen(record.disposition.value):
        remarks += _lost_remarks(record.delivery.value)
    return remarks


def _lost_remarks(delivery: str) -> list[str]:
    remarks = ["Lost: its gateway ended first. What happened after the last event is not known."]
    if delivery != Delivery.NONE:
        remarks.append(
            "As last noted, a part of the answer had been written to its client: so an engine "
            "had worked on it. When, and how much was written, is not known."
        )
    return remarks


def _reason_of(record: RequestRecord, kind: EventKind) -> str | None:
    return next((event.reason for event in record.events if event.kind is kind), None)


def _first_known(*times: float | None) -> float | None:
    return next((time for time in times if time is not None), None)


def _ends(phases: list[Phase]) -> list[float]:
    return [phase.end_seconds for phase in phases if phase.end_seconds is not None]
