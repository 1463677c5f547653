"""A request's record as the store's rows hold it: the compact row and its minute's counts.

Pure conversions. What has no value is NULL in a compact row; a count's key has no NULL, so
there a missing name is the empty string, which no document can be called.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import String

from controlplane.store.latency_buckets import bucket_of
from controlplane.store.metered_measures import metered_amounts
from controlplane.store.request_tables import RequestRow
from dataplane.judgement import Judgement, Verdict
from dataplane.latency import Boundary, BoundaryLatencies
from dataplane.lifecycle import Disposition, EventKind, Observability, find_event
from dataplane.record import RequestRecord

MINUTE_SECONDS = 60
_NANOSECONDS = 1_000_000_000
_LONGEST_SECONDS = 30 * 86_400
"""No request lives longer."""
_ERRORS = frozenset({Disposition.ERROR, Disposition.LOST, Disposition.DEADLINE, Disposition.SHED})
UNKNOWN_OUTCOME = "unknown"
"""Of a policy that looked on, and came to nothing that can be compared."""
_SHADOW_COLUMNS = (
    "shadow_enforced",
    "shadow_outcome",
    "shadow_class",
    "shadow_kind",
    "shadow_differs",
)
_TEXT_LIMITS: dict[str, int] = {
    column.name: column.type.length
    for column in RequestRow.__table__.columns
    if isinstance(column.type, String) and column.type.length
}


class CountKey(NamedTuple):
    """Which counter of which minute."""

    minute_unix: int
    deployment: str
    request_class: str
    tenant: str
    contract_revision: str
    measure: str


def minute_of(record: RequestRecord) -> int:
    """Start of the minute in which the request arrived, in seconds since the epoch."""
    return _minute(record.arrived_at_unix_ns, 0.0)


def judged_minute_of(
    arrived_at_unix_ns: int, last_write: float | None, finished: float | None
) -> int:
    """Start of the minute in which the request ended and was judged, by the seconds since its
    arrival at which its row says so. Of one that was lost with its gateway nobody knows the end:
    it counts when it arrived, and so does one whose end cannot be."""
    after = (last_write if last_write is not None else finished) or 0.0
    return _minute(arrived_at_unix_ns, after if 0 <= after <= _LONGEST_SECONDS else 0.0)


def is_of_objective(measure: str) -> bool:
    """Whether it is counted in the minute in which requests were judged. A gateway counts it at
    that moment too, so that windows of both hold the same requests; and by the minute of arrival
    the newest part of every window would have what ended fast or badly, and nothing else."""
    return measure.startswith("objective.")


def _minute(arrived_at_unix_ns: int, seconds_after: float) -> int:
    seconds = (arrived_at_unix_ns + round(seconds_after * _NANOSECONDS)) // _NANOSECONDS
    return seconds - seconds % MINUTE_SECONDS


def reason_to_keep(record: RequestRecord) -> str:
    """The reservoir that the full record is offered to: error, rejected, violator or sample."""
    if record.disposition in _ERRORS:
        return "error"
    if record.disposition is Disposition.REJECTED:
        return "rejected"  # its decision is all that there is of it, contract or not
    if record.judgement is not None and record.judgement.in_contract is False:
        return "violator"
    return "sample"


def compact_row(record: RequestRecord) -> dict[str, Any]:
    """Column values of the request's RequestRow."""
    latencies = _contract_latencies(record)
    values: dict[str, Any] = {
        "gateway_id": record.gateway_id,
        "gateway_sequence": record.gateway_sequence,
        "request_id": record.request_id,
        "trace_id": record.trace.trace_id,
        "span_id": record.trace.span_id,
        "parent_span_id": record.trace.parent_span_id,
        "arrived_at_unix_ns": record.arrived_at_unix_ns,
        "tenant": record.tenant,
        "request_class": record.request_class,
        "deployment": record.deployment,
        "model_revision": record.model_revision,
        "engine_config_revision": record.engine_config_revision,
        "rollout": None if record.rollout is None else record.rollout.number,
        "arm": None if record.rollout is None else record.rollout.arm.value,
        "policy_revision": record.policy_revision,
        "contract_revision": record.contract_revision,
        "engine": record.engine,
        "replica_id": record.replica_ids[-1] if record.replica_ids else None,
        "num_attempts": len(record.replica_ids),
        "status_code": record.status_code,
        "disposition": record.disposition.value,
        "reason": record.reason,
        "delivery": record.delivery.value,
        "num_prompt_tokens": record.num_prompt_tokens,
        "num_cached_tokens": record.num_cached_tokens,
        "num_output_tokens": record.num_output_tokens or 0,
        "is_output_unknown": True if record.num_output_tokens is None else None,
        "in_contract": None if record.judgement is None else record.judgement.in_contract,
        "scheduled": _at(record, EventKind.SCHEDULED),
        "first_token": _at(record, EventKind.FIRST_TOKEN),
        "first_write": _at(record, EventKind.FIRST_WRITE),
        "finished": _last_at(record, EventKind.FINISHED),
        "last_write": _at(record, EventKind.LAST_WRITE),
        "released": _at(record, EventKind.RELEASED),
        "ttft": _ttft(record),
        "tpot": latencies.tpot,
        "e2e": latencies.e2e,
        "first_answer": latencies.first_answer,
        "max_gap": latencies.max_gap,
        **_metered(record),
        **_shadowed(record),
    }
    for name, limit in _TEXT_LIMITS.items():
        values[name] = storable(values[name], limit)
    return values


def _shadowed(record: RequestRecord) -> dict[str, Any]:
    """What a policy that looked on came to; nothing where none did."""
    shadow, enforced = record.shadow, record.decision
    if shadow is None or enforced is None:
        return dict.fromkeys(_SHADOW_COLUMNS)
    own = shadow.decision
    return {
        "shadow_enforced": enforced.outcome.value,
        "shadow_outcome": UNKNOWN_OUTCOME if own is None else own.outcome.value,
        "shadow_class": None if own is None else own.request_class,
        "shadow_kind": None if own is None else own.kind,
        "shadow_differs": shadow.differs_from(enforced),
    }


def count_measures(record: RequestRecord) -> Counter[CountKey]:
    """What the request adds to the exact counts: of the minute in which it arrived, and, by
    objective, of that in which it was judged."""
    amounts = {"offered": 1, f"disposition.{record.disposition.value}": 1}
    if record.judgement is not None:
        amounts |= dict.fromkeys(judged_measures(record.judgement), 1)
    ttft = _ttft(record)
    if ttft is not None:
        amounts[f"ttft.{bucket_of(ttft)}"] = 1
    amounts["tokens.input"] = record.num_input_tokens
    amounts["tokens.output"] = record.num_output_tokens or 0  # what nobody knows adds nothing
    amounts["tokens.cached"] = record.num_cached_tokens or 0
    amounts |= metered_amounts(record)
    judged = judged_minute_of(
        record.arrived_at_unix_ns,
        _at(record, EventKind.LAST_WRITE),
        _last_at(record, EventKind.FINISHED),
    )
    names = (
        storable(record.deployment or "", 128),
        storable(record.request_class or "", 128),
        _counted_tenant(record),
        storable(record.contract_revision or "", 160),
    )
    return in_their_minutes(minute_of(record), judged, names, amounts)


def in_their_minutes(
    arrived: int, judged: int, names: tuple[str, str, str, str], amounts: Mapping[str, int]
) -> Counter[CountKey]:
    """Keys for `amounts` by measure, each in its minute. `names` are deployment, class, tenant and
    contract revision; what is 0 is left out."""
    return Counter(
        {
            CountKey(judged if is_of_objective(measure) else arrived, *names, measure): n
            for measure, n in amounts.items()
            if n
        }
    )


def _counted_tenant(record: RequestRecord) -> str:
    # The gateway knows the tenant before it looks for a deployment. A name that got no further
    # is whatever stood in a header, and must not add rows as fast as someone can invent names.
    if record.disposition is Disposition.INVALID and record.deployment is None:
        return ""
    return str(storable(record.tenant or "", 128))


def storable(text: Any, limit: int) -> Any:
    """`text` cut to what its column holds, and free of NUL, which PostgreSQL refuses.

    A record is never refused for a long name: the full record keeps it whole.
    """
    if not isinstance(text, str):
        return text
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return cut.replace("\x00", "\ufffd")


def judged_measures(judgement: Judgement) -> list[str]:
    """The counters that a judgement adds one to."""
    measures = []
    for result in judgement.results:
        if result.verdict is Verdict.NOT_APPLICABLE:
            continue
        measures.append(f"objective.{result.signal.value}.total")
        if result.verdict is Verdict.GOOD:
            measures.append(f"objective.{result.signal.value}.good")
    if judgement.together is not Verdict.NOT_APPLICABLE:
        measures.append("objective.together.total")
        if judgement.together is Verdict.GOOD:
            measures.append("objective.together.good")
    if judgement.in_contract is not None:
        measures.append("in_contract.total")
        if judgement.in_contract:
            measures.append("in_contract.good")
    return measures


def _metered(record: RequestRecord) -> dict[str, float | bool | None]:
    metered = record.metered
    if metered is None:
        return {"engine_seconds": None, "is_engine_inferred": None, "kv_block_seconds": None}
    return {
        "engine_seconds": metered.engine_seconds,
        "is_engine_inferred": metered.engine_observability is not Observability.OBSERVED,
        "kv_block_seconds": metered.kv_block_seconds,
    }


def _ttft(record: RequestRecord) -> float | None:
    # A refusal is written too, but what is written then is no token.
    if find_event(record.events, EventKind.FIRST_TOKEN) is None:
        return None
    return _contract_latencies(record).ttft


def _contract_latencies(record: RequestRecord) -> BoundaryLatencies:
    boundary = Boundary.SERVER if record.judgement is None else record.judgement.boundary
    return record.latencies.at(boundary)


def _at(record: RequestRecord, kind: EventKind) -> float | None:
    event = find_event(record.events, kind)
    return None if event is None else event.at


def _last_at(record: RequestRecord, kind: EventKind) -> float | None:
    times = [event.at for event in record.events if event.kind is kind]
    return times[-1] if times else None
