"""What clients and engines reported about a request, as it is shown beside the gateway's record.

A client's times are durations since its own send. Its lane in the waterfall begins with the
request's arrival only because something must be assumed to draw it: so it is marked inferred,
and no difference between one of its times and one of the server's is ever shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from controlplane.api.life import Life, Mark, Phase
from controlplane.api.unseen import is_end_unseen
from controlplane.otlp.received import Scalar
from dataplane.judgement import Judgement
from dataplane.latency import Boundary, BoundaryLatencies, client_latencies, with_client
from dataplane.lifecycle import Delivery, EventKind, Observability, find_event
from dataplane.record import RequestRecord

if TYPE_CHECKING:  # whoever only reads answers (the command line) does without the database
    from controlplane.store.request_tables import RequestRow
    from controlplane.store.span_reports import StoredReport

CLIENT_LANE = "client"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientView:
    """What the client saw, in seconds since its send, on its own clock."""

    source: str
    span_id: str
    first_content_seconds: float | None
    first_content_observability: str
    """inferred: the first chunk, which may have been empty."""
    final_content_seconds: float | None
    final_content_observability: str
    """inferred: the end of its span."""
    tpot_seconds: float | None
    max_chunk_gap_seconds: float | None
    clock_error_seconds: float | None
    """As the client declares it. None: its clock cannot be compared with the gateway's."""
    error: str | None
    attributes: dict[str, Scalar]
    first_answer_seconds: float | None = None
    """The first content that is no reasoning; None: it did not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSpanView:
    """What an engine says in its own span. Its figures count from its own arrival."""

    source: str
    name: str
    span_id: str
    seconds: float
    error: str | None
    attributes: dict[str, Scalar]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryView:
    """The latencies at one boundary, and how they are known."""

    boundary: str
    ttft_seconds: float | None
    tpot_seconds: float | None
    e2e_seconds: float | None
    known: str
    """observed, inferred, unknown (only the compact row was kept), or not reported."""
    first_answer_seconds: float | None = None
    """Until the first token that is no reasoning; None: there was none, or it is not known."""

    @property
    def shows_reasoning(self) -> bool:
        """The answer began after the first token."""
        return self.first_answer_seconds not in (None, self.ttft_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """Everything that others told about one request."""

    client: ClientView | None
    judgement: Judgement | None
    """With the client's report; None where the contract says nothing about the client."""
    engine_spans: list[EngineSpanView]


def read_reported(row: "RequestRow", reports: "Sequence[StoredReport]") -> Reported:
    """From what is stored."""
    told = next((each for each in reports if each.report.client is not None), None)
    return Reported(
        client=None if told is None else _client_view(row, told),
        judgement=None if told is None else told.judgement,
        engine_spans=[
            EngineSpanView(
                source=each.report.source,
                name=each.report.name,
                span_id=each.report.span_id,
                seconds=each.report.seconds,
                error=each.report.error,
                attributes=each.report.attributes,
            )
            for each in reports
            if each.report.client is None
        ],
    )


def with_report(record: RequestRecord, reports: "Sequence[StoredReport]") -> RequestRecord:
    """The record as it would be had the gateway known what the client reported."""
    for each in reports:
        if each.report.client is not None:
            client = each.report.client.report
            return replace(
                record,
                client=client,
                latencies=with_client(
                    record.latencies, record.events, record.num_output_tokens, client
                ),
                judgement=each.judgement or record.judgement,
            )
    return record


def with_client_lane(life: Life, client: ClientView | None) -> Life:
    """The waterfall with the client's side below the server's."""
    if client is None:
        return life
    first, end = client.first_content_seconds, client.final_content_seconds
    marks = [] if first is None else [Mark(kind="first_content", at_seconds=first, text="content")]
    lane = Phase(
        name=CLIENT_LANE,
        start_seconds=0.0,
        end_seconds=end,
        observability=(
            Observability.INFERRED if client.clock_error_seconds is None else Observability.OBSERVED
        ).value,
        boundary=Boundary.CLIENT.value,
        error_seconds=client.clock_error_seconds or 0.0,
        note=_lane_note(client),
        marks=marks,
    )
    times = [time for time in (first, end) if time is not None]
    return replace(
        life,
        total_seconds=max([life.total_seconds, *times]),
        phases=[*life.phases, lane],
        remarks=[*life.remarks, _lane_remark(client)],
    )


def boundaries_of_record(record: RequestRecord, client: ClientView | None) -> list[BoundaryView]:
    """From the full record, the engine first."""
    first_token = find_event(record.events, EventKind.FIRST_TOKEN)
    latencies = record.latencies
    is_unseen = is_end_unseen(record.disposition.value)
    without_token = "unknown" if is_unseen else "no token"
    at_engine = without_token if first_token is None else first_token.observability.value
    at_client = _at_client(client)
    if client is None and record.client is not None:
        at_client = _boundary(Boundary.CLIENT, latencies.client, Observability.OBSERVED.value)
    return [
        _boundary(Boundary.ENGINE, latencies.engine, at_engine),
        _boundary(Boundary.SERVER, latencies.server, _at_server(latencies.server, is_unseen)),
        at_client,
    ]


def boundaries_of_row(row: "RequestRow", client: ClientView | None) -> list[BoundaryView]:
    """From the compact row, which tells no pace of engine and server."""
    at_server = BoundaryLatencies(
        ttft=row.first_write if row.first_token is not None else None,
        e2e=row.last_write if row.delivery == Delivery.COMPLETE else None,
    )
    return [
        _boundary(Boundary.ENGINE, BoundaryLatencies(ttft=row.first_token), "unknown"),
        _boundary(
            Boundary.SERVER, at_server, _at_server(at_server, is_end_unseen(row.disposition))
        ),
        _at_client(client),
    ]


def _at_server(at: BoundaryLatencies, is_unseen: bool) -> str:
    """Who saw a request to its end observed that there was no such time, too."""
    knows_any = any(seconds is not None for seconds in (at.ttft, at.tpot, at.e2e))
    return "unknown" if is_unseen and not knows_any else Observability.OBSERVED.value


def _at_client(client: ClientView | None) -> BoundaryView:
    if client is None:
        return _boundary(Boundary.CLIENT, BoundaryLatencies(), "not reported")
    words = (client.first_content_observability, client.final_content_observability)
    at = BoundaryLatencies(
        ttft=client.first_content_seconds,
        first_answer=client.first_answer_seconds,
        tpot=client.tpot_seconds,
        e2e=client.final_content_seconds,
    )
    return _boundary(Boundary.CLIENT, at, "inferred" if "inferred" in words else "observed")


def _boundary(boundary: Boundary, at: BoundaryLatencies, known: str) -> BoundaryView:
    return BoundaryView(
        boundary=boundary.value,
        ttft_seconds=at.ttft,
        tpot_seconds=at.tpot,
        e2e_seconds=at.e2e,
        first_answer_seconds=at.first_answer,
        known=known,
    )


def _client_view(row: "RequestRow", told: "StoredReport") -> ClientView:
    report, times = told.report, told.report.client
    assert times is not None
    return ClientView(
        source=report.source,
        span_id=report.span_id,
        first_content_seconds=times.report.first_content,
        first_content_observability=times.first_content.value,
        first_answer_seconds=times.report.first_answer,
        final_content_seconds=times.report.final_content,
        final_content_observability=times.final_content.value,
        tpot_seconds=client_latencies(times.report, row.num_output_tokens).tpot,
        max_chunk_gap_seconds=times.report.max_chunk_gap,
        clock_error_seconds=times.report.clock_error,
        error=report.error,
        attributes=report.attributes,
    )


def _lane_note(client: ClientView) -> str:
    note = "its own clock"
    if client.first_content_seconds is not None:
        note += f", first content after {client.first_content_seconds * 1000:,.0f} ms"
    return note if client.error is None else f"{note}, it ended with {client.error}"


def _lane_remark(client: ClientView) -> str:
    if client.clock_error_seconds is not None:
        return (
            f"The client's clock is within {client.clock_error_seconds * 1000:,.1f} ms of the "
            f"gateway's, as {client.source} declares."
        )
    return (
        f"The lane `client` holds durations since the send on the clock of {client.source}. It "
        "is drawn from the arrival by assumption: how long the request travelled is not known."
    )
