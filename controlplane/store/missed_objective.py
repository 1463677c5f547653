"""Which objective of its contract a request missed, as far as its compact row can tell.

The row holds the latencies at the contract's boundary and the verdict on all objectives at
once; what each was promised is in the contract.
"""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, case, false, func, or_

from controlplane.store.request_tables import RequestRow
from dataplane.contract_terms import ObjectiveSignal
from dataplane.lifecycle import Delivery

_LATENCIES = {
    ObjectiveSignal.TTFT: RequestRow.ttft,
    ObjectiveSignal.FIRST_ANSWER: RequestRow.first_answer,
    ObjectiveSignal.TPOT: RequestRow.tpot,
    ObjectiveSignal.MAX_ITL: RequestRow.max_gap,
    ObjectiveSignal.CHUNK_GAP: RequestRow.max_gap,
    ObjectiveSignal.E2E: RequestRow.e2e,
}
_FIRST = frozenset({ObjectiveSignal.TTFT, ObjectiveSignal.FIRST_ANSWER})
_FAILED = ("error", "lost", "deadline", "shed", "rejected")
_CANCELLED = "cancelled"
_UNAVAILABLE = 503


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What one revision of a contract promised to one class."""

    contract_revision: str
    request_class: str
    at_most_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedObjective:
    """Requests that missed this one."""

    signal: ObjectiveSignal
    limits: tuple[Limit, ...] = ()
    """Of a latency: under every contract that may have been in force."""


def missed_conditions(missed: MissedObjective) -> list[ColumnElement[bool]]:
    """Out of contract, and for this reason; a request the service failed missed availability."""
    out_of_contract = RequestRow.in_contract.is_(False)
    if missed.signal is ObjectiveSignal.AVAILABILITY:
        return [out_of_contract, or_(RequestRow.disposition.in_(_FAILED), _left_without_any())]
    if missed.signal is ObjectiveSignal.ACCEPTANCE:
        return [out_of_contract, *_not_let_in()]
    return [out_of_contract, or_(false(), *_too_slow(missed))]


def _left_without_any() -> ColumnElement[bool]:
    """Who left before anything came is out of contract only after waiting for too long."""
    return and_(RequestRow.disposition == _CANCELLED, RequestRow.first_write.is_(None))


def _not_let_in() -> list[ColumnElement[bool]]:
    """As dataplane.outcome has it."""
    unanswered = or_(RequestRow.status_code.is_(None), RequestRow.status_code == _UNAVAILABLE)
    return [
        RequestRow.disposition.in_(_FAILED),
        unanswered,
        RequestRow.delivery == Delivery.NONE.value,
    ]


def _too_slow(missed: MissedObjective) -> list[ColumnElement[bool]]:
    reasons: list[ColumnElement[bool]] = [
        and_(
            RequestRow.contract_revision == limit.contract_revision,
            RequestRow.request_class == limit.request_class,
            _longer(missed.signal, limit.at_most_seconds),
        )
        for limit in missed.limits
    ]
    if missed.signal in _FIRST:
        # Who left without it is out of contract only after waiting for too long.
        reasons.append(
            and_(RequestRow.disposition == _CANCELLED, _LATENCIES[missed.signal].is_(None))
        )
    return reasons


def _longer(signal: ObjectiveSignal, at_most_seconds: float) -> ColumnElement[bool]:
    """As dataplane.judgement has it: what was all reasoning missed its first answer by its end, and
    who left after all of it was due missed that."""
    column = _LATENCIES[signal]
    if signal is ObjectiveSignal.E2E:
        left_at = case((RequestRow.disposition == _CANCELLED, RequestRow.last_write))
        return func.coalesce(column, left_at) > at_most_seconds
    if signal is ObjectiveSignal.FIRST_ANSWER:
        return func.coalesce(column, RequestRow.e2e) > at_most_seconds
    return column > at_most_seconds
