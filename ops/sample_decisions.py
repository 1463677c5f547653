"""What was decided about sample requests: let in, degraded, refused, and sent somewhere."""

from collections.abc import Sequence

from dataplane.decision import (
    AdmissionDecision,
    AdmissionOutcome,
    RoutingCandidate,
    RoutingDecision,
    Signal,
)
from dataplane.lifecycle import Disposition, Event, EventKind, find_event

POLICY = "chat@12"
SNAPSHOT_VERSION = 31
_MAX_QUEUE = 64


def sample_admission(
    events: tuple[Event, ...], request_class: str | None, disposition: Disposition
) -> AdmissionDecision | None:
    """None of a request that nobody decided on."""
    rejected = find_event(events, EventKind.REJECTED)
    if rejected is not None:
        return _decision(
            request_class,
            outcome=AdmissionOutcome.REJECTED,
            kind="queue_full",
            reason=rejected.reason or "",
            signals=_signals(num_waiting=_MAX_QUEUE, is_full=True),
            retry_after_seconds=3,
        )
    if find_event(events, EventKind.ADMITTED) is None:
        return None
    if disposition is Disposition.LENGTH:
        return _decision(
            request_class,
            outcome=AdmissionOutcome.DEGRADED,
            reason="queue age 1.3 s is over 1 s",
            signals=_signals(num_waiting=12, queue_age=1.3),
            degraded=("max_tokens=256",),
            asked_output_tokens=1024,
        )
    return _decision(
        request_class,
        outcome=AdmissionOutcome.ADMITTED,
        reason="it may wait: every bound leaves room",
        signals=_signals(num_waiting=3),
    )


def sample_routing(replica_ids: Sequence[str]) -> tuple[RoutingDecision, ...]:
    """One for each attempt, over a thousand replicas."""
    return tuple(
        RoutingDecision(
            attempt=attempt,
            policy="prefix",
            chosen=chosen,
            reason="the prompt's beginning is in its cache, and that outweighs who waits there",
            snapshot_version=SNAPSHOT_VERSION,
            candidates=(
                _candidate(chosen, 0.18, num_outstanding=3, cached=64, age=0.4),
                _candidate("chat-7", 0.31, num_outstanding=1, cached=0, age=0.6),
                RoutingCandidate(
                    replica_id="chat-9",
                    score=0.44,
                    signals=(
                        _signal("outstanding", 4, "sequences"),
                        Signal(
                            name="reported",
                            value=4,
                            unit="sequences",
                            source="chat-9",
                            age_seconds=14.2,
                            is_used=False,
                        ),
                    ),
                ),
                *(
                    RoutingCandidate(replica_id=each, why_not="it failed this request")
                    for each in replica_ids[:attempt]
                ),
            ),
            num_candidates=1000 - attempt,
            degraded=("chat-9: told 14.2 s ago; the gateway's own counts stand",),
        )
        for attempt, chosen in enumerate(replica_ids)
    )


def _decision(request_class: str | None, **fields: object) -> AdmissionDecision:
    given = {
        "snapshot_version": SNAPSHOT_VERSION,
        "policy_revision": POLICY,
        "request_class": request_class,
    }
    return AdmissionDecision(**given, **fields)  # type: ignore[arg-type]


def _signals(
    num_waiting: int, is_full: bool = False, queue_age: float = 0.21
) -> tuple[Signal, ...]:
    return (
        _signal("waiting_of_class", num_waiting, "requests", _MAX_QUEUE, is_full),
        _signal("queue_age", queue_age, "s", 1.0),
        _signal("tenant_tokens", 48_210, "tokens", 200_000),
        Signal(name="drain_rate", value=21.4, unit="requests/s", age_seconds=2.0),
    )


def _signal(
    name: str, value: float, unit: str, limit: float | None = None, is_decisive: bool = False
) -> Signal:
    return Signal(name=name, value=value, unit=unit, limit=limit, is_decisive=is_decisive)


def _told(name: str, value: float, unit: str, replica_id: str, age: float) -> Signal:
    return Signal(name=name, value=value, unit=unit, source=replica_id, age_seconds=age)


def _candidate(
    replica_id: str, score: float, *, num_outstanding: int, cached: int, age: float
) -> RoutingCandidate:
    return RoutingCandidate(
        replica_id=replica_id,
        score=score,
        signals=(
            _signal("outstanding", num_outstanding, "sequences"),
            _told("cached_prefix", cached, "tokens", replica_id, age),
            _told("reported", num_outstanding, "sequences", replica_id, age),
        ),
    )
