"""Requests as API, console and terminal show them: one model, three renderings.

Times are seconds since the request's arrival. None is unknown, and every surface says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controlplane.api.explanation import Explanation, explain_record, without_others
from controlplane.api.headline import Headline, headline_of
from controlplane.api.life import Life, life_of_record, life_of_row
from controlplane.api.reported import (
    BoundaryView,
    ClientView,
    EngineSpanView,
    boundaries_of_record,
    boundaries_of_row,
    read_reported,
    with_client_lane,
    with_report,
)
from controlplane.api.unseen import (
    describe_delivery,
    is_end_unseen,
    why_no_e2e,
    why_no_queue_time,
    why_no_ttft,
    why_not_scheduled,
)
from dataplane.judgement import Judgement
from dataplane.lifecycle import Event, EventKind, Observability
from dataplane.record import RequestRecord, record_to_dict

if TYPE_CHECKING:  # whoever only reads answers (the command line) does without the database
    from controlplane.store.request_tables import RequestRow
    from controlplane.store.span_reports import StoredReport


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSummary:
    """One line of the list: the compact row."""

    request_id: str
    trace_id: str
    gateway_id: str
    gateway_sequence: int | None
    """None to who sees one tenant alone: it counts the requests of all."""
    arrived_at_unix_ns: int
    tenant: str | None
    request_class: str | None
    deployment: str | None
    model_revision: str | None
    policy_revision: str | None
    contract_revision: str | None
    engine: str | None
    replica_id: str | None
    num_attempts: int
    status_code: int | None
    disposition: str
    reason: str | None
    delivery: str
    num_prompt_tokens: int | None
    num_cached_tokens: int | None
    num_output_tokens: int | None
    in_contract: bool | None
    queue_seconds: float | None
    ttft_seconds: float | None
    tpot_seconds: float | None
    e2e_seconds: float | None
    engine_seconds: float | None = None
    """Of replicas' time that it took; None: not known."""
    is_engine_inferred: bool | None = None
    """False: its engine measured that."""
    kv_block_seconds: float | None = None
    finished_seconds: float | None = None
    """Since its arrival, until its engine was through with it."""
    last_write_seconds: float | None = None
    """Until the last was written to its client, or its client was gone."""
    released_seconds: float | None = None
    """Until every block and slot of it could be used again."""

    @property
    def is_end_unseen(self) -> bool:
        """What is not told of it is unknown, and did not fail to happen."""
        return is_end_unseen(self.disposition)

    @property
    def why_no_queue_time(self) -> str:
        """Where `queue_seconds` is None."""
        return why_no_queue_time(self.disposition, self.replica_id)

    @property
    def why_no_ttft(self) -> str:
        """Where `ttft_seconds` is None."""
        return why_no_ttft(self.disposition)

    @property
    def why_no_e2e(self) -> str:
        """Where `e2e_seconds` is None."""
        return why_no_e2e(self.disposition)

    @property
    def delivery_text(self) -> str:
        """How much of the answer went out."""
        return describe_delivery(self.delivery, self.disposition)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPage:
    """A page of the list, the newest first."""

    requests: list[RequestSummary]
    next: str | None
    """What to give as `after` for the following page; None on the last."""
    as_of_unix_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPage:
    """A page of full records, the newest first."""

    records: list[dict[str, Any]]
    next: str | None
    """As of a RequestPage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try on one replica."""

    attempt: int
    replica_id: str | None
    scheduled_seconds: float | None
    outcome: str
    why_not_scheduled: str | None = None
    """In words, where `scheduled_seconds` is None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveView:
    """One objective of the contract, for this request."""

    signal: str
    verdict: str
    measured_seconds: float | None
    at_most_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgementView:
    """How the request stands to its contract."""

    boundary: str
    in_contract: bool | None
    objectives: list[ObjectiveView]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView:
    """One event, with the fields it carries."""

    kind: str
    at_seconds: float
    error_seconds: float
    attempt: int
    sequence: int
    observability: str
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestDetail:
    """One request, whole."""

    headline: Headline
    request: RequestSummary
    life: Life
    kept_because: str | None
    """Why the full record was kept: error, violator or sample. None: it was not."""
    record: dict[str, Any] | None
    """The full record, or None where only the compact row was kept."""
    are_tokens_inferred: bool | None
    """A count of tokens was not told by the engine or a tokenizer. None: the row does not say."""
    snapshot_version: int | None
    attempts: list[Attempt]
    judgement: JudgementView | None
    events: list[EventView]
    as_of_unix_ns: int
    boundaries: list[BoundaryView] = field(default_factory=list)
    """TTFT, TPOT and E2E at engine, server and client."""
    client: ClientView | None = None
    """The client's side, or None where it did not report."""
    engine_spans: list[EngineSpanView] = field(default_factory=list)
    explanation: Explanation | None = None
    """Who decided, on what, and what would have changed it; None where only the compact row was
    kept."""


def summarize(row: "RequestRow", only_tenant: str | None = None) -> RequestSummary:
    """The summary of `row`, for who may see all or `only_tenant`."""
    return RequestSummary(
        request_id=row.request_id,
        trace_id=row.trace_id,
        gateway_id=row.gateway_id,
        gateway_sequence=row.gateway_sequence if only_tenant is None else None,
        arrived_at_unix_ns=row.arrived_at_unix_ns,
        tenant=row.tenant,
        request_class=row.request_class,
        deployment=row.deployment,
        model_revision=row.model_revision,
        policy_revision=row.policy_revision,
        contract_revision=row.contract_revision,
        engine=row.engine,
        replica_id=row.replica_id,
        num_attempts=row.num_attempts,
        status_code=row.status_code,
        disposition=row.disposition,
        reason=row.reason,
        delivery=row.delivery,
        num_prompt_tokens=row.num_prompt_tokens,
        num_cached_tokens=row.num_cached_tokens,
        num_output_tokens=row.num_output_tokens,
        in_contract=row.in_contract,
        queue_seconds=row.scheduled,
        ttft_seconds=row.ttft,
        tpot_seconds=row.tpot,
        e2e_seconds=row.e2e,
        engine_seconds=row.engine_seconds,
        is_engine_inferred=row.is_engine_inferred,
        kv_block_seconds=row.kv_block_seconds,
        finished_seconds=row.finished,
        last_write_seconds=row.last_write,
        released_seconds=row.released,
    )


def describe(
    row: "RequestRow",
    kept: tuple[RequestRecord, str] | None,
    now_unix_ns: int,
    reports: "Sequence[StoredReport]" = (),
    only_tenant: str | None = None,
) -> RequestDetail:
    """All that is known of a request, with what its client and its engine reported."""
    record, kept_because = kept if kept is not None else (None, None)
    reported = read_reported(row, reports)
    client = reported.client
    if record is not None:
        record = with_report(record, reports)
    life = life_of_row(row) if record is None else life_of_record(record)
    return RequestDetail(
        headline=headline_of(row, record),
        request=summarize(row, only_tenant),
        life=with_client_lane(life, client),
        kept_because=kept_because,
        record=None if record is None else _shown_record(record, only_tenant),
        are_tokens_inferred=None if record is None else _are_tokens_inferred(record),
        snapshot_version=None if record is None else record.snapshot_version,
        attempts=[] if record is None else _attempts(record),
        judgement=_judgement(reported.judgement if record is None else record.judgement),
        events=[] if record is None else [_event(event) for event in record.events],
        as_of_unix_ns=now_unix_ns,
        boundaries=(
            boundaries_of_row(row, client)
            if record is None
            else boundaries_of_record(record, client)
        ),
        client=client,
        engine_spans=reported.engine_spans,
        explanation=None if record is None else _explain(record, only_tenant),
    )


def _explain(record: RequestRecord, only_tenant: str | None) -> Explanation:
    explanation = explain_record(record)
    return explanation if only_tenant is None else without_others(explanation)


def _shown_record(record: RequestRecord, only_tenant: str | None) -> dict[str, Any]:
    shown = record_to_dict(record)
    if only_tenant is not None:
        for counts_others in ("gateway_sequence", "decision", "routing"):
            del shown[counts_others]
    return shown


def _are_tokens_inferred(record: RequestRecord) -> bool:
    counts = (record.prompt_tokens_observability, record.output_tokens_observability)
    return Observability.INFERRED in counts


def _attempts(record: RequestRecord) -> list[Attempt]:
    scheduled = {
        event.attempt: event.at for event in record.events if event.kind is EventKind.SCHEDULED
    }
    last = len(record.replica_ids) - 1
    return [
        Attempt(
            attempt=number,
            replica_id=replica_id,
            scheduled_seconds=scheduled.get(number),
            outcome=record.disposition.value if number == last else "given up, tried elsewhere",
            why_not_scheduled=None
            if number in scheduled
            else why_not_scheduled(record.disposition.value, is_last=number == last),
        )
        for number, replica_id in enumerate(record.replica_ids)
    ]


def _judgement(judgement: Judgement | None) -> JudgementView | None:
    if judgement is None:
        return None
    return JudgementView(
        boundary=judgement.boundary.value,
        in_contract=judgement.in_contract,
        objectives=[
            ObjectiveView(
                signal=result.signal.value,
                verdict=result.verdict.value,
                measured_seconds=result.measured_seconds,
                at_most_seconds=result.at_most_seconds,
            )
            for result in judgement.results
        ],
    )


def _event(event: Event) -> EventView:
    details = {
        "num_tokens": event.num_tokens,
        "num_cached_tokens": event.num_cached_tokens,
        "replica_id": event.replica_id,
        "disposition": event.disposition,
        "delivery": event.delivery,
        "reason": event.reason,
        "waited_seconds": event.waited_seconds,
    }
    return EventView(
        kind=event.kind.value,
        at_seconds=event.at,
        error_seconds=event.at_error,
        attempt=event.attempt,
        sequence=event.sequence,
        observability=event.observability.value,
        details={name: value for name, value in details.items() if value is not None},
    )
