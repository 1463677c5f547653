"""Which objective of its contract a request missed, as far as its compact row can tell.

The row holds the latencies at the contract's boundary and the verdict on all objectives at
once; what each was promised is in the contract. What a row does not hold (the longest gap
between two tokens) cannot be asked for.
"""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, false, or_

from controlplane.store.request_tables import RequestRow

_LATENCIES = {"ttft": RequestRow.ttft, "tpot": RequestRow.tpot, "e2e": RequestRow.e2e}
AVAILABILITY = "availability"
SIGNALS = (*_LATENCIES, AVAILABILITY)
_FAILED = ("error", "lost", "deadline", "shed", "rejected")
_CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What one revision of a contract promised to one class."""

    contract_revision: str
    request_class: str
    at_most_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedObjective:
    """Requests that missed this one."""

    signal: str
    """One of SIGNALS."""
    limits: tuple[Limit, ...] = ()
    """Of a latency: under every contract that may have been in force."""


def missed_conditions(missed: MissedObjective) -> list[ColumnElement[bool]]:
    """Out of contract, and for this reason; a request the service failed missed availability."""
    out_of_contract = RequestRow.in_contract.is_(False)
    if missed.signal == AVAILABILITY:
        return [out_of_contract, RequestRow.disposition.in_(_FAILED)]
    return [out_of_contract, or_(false(), *_too_slow(missed))]


def _too_slow(missed: MissedObjective) -> list[ColumnElement[bool]]:
    column = _LATENCIES[missed.signal]
    reasons: list[ColumnElement[bool]] = [
        and_(
            RequestRow.contract_revision == limit.contract_revision,
            RequestRow.request_class == limit.request_class,
            column > limit.at_most_seconds,
        )
        for limit in missed.limits
    ]
    if missed.signal == "ttft":
        # Who left without a first token is out of contract only after waiting for too long.
        reasons.append(and_(RequestRow.disposition == _CANCELLED, column.is_(None)))
    return reasons
