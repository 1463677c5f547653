"""A decision as it is kept in its request's record: what it read, and what it came to. Pure."""

import math
from collections.abc import Iterator

from dataplane.admission.admit import Admitted, Rejected, RejectionKind
from dataplane.admission.class_matching import RequestFacts
from dataplane.admission.deployment_admission import Considered
from dataplane.admission.wait_estimate import estimate_wait, find_deadline
from dataplane.decision import AdmissionDecision, AdmissionOutcome, Signal, clip, keep_signals
from dataplane.policy import ClassPolicy


def rejection_record(
    considered: Considered, rejected: Rejected, snapshot_version: int
) -> AdmissionDecision:
    """Of a request that was told no."""
    of = rejected.request_class
    return AdmissionDecision(
        outcome=AdmissionOutcome.REJECTED,
        snapshot_version=snapshot_version,
        policy_revision=rejected.policy_revision,
        request_class=None if of is None else of.name,
        kind=rejected.kind,
        reason=clip(rejected.reason),
        signals=keep_signals(_signals(considered, of, rejected.kind)),
        retry_after_seconds=rejected.retry_after_seconds,
        overrides=considered.overrides,
    )


def admission_record(
    considered: Considered,
    admitted: Admitted,
    facts: RequestFacts,
    snapshot_version: int,
    degraded: tuple[str, ...] = (),
    why_degraded: str | None = None,
    fallback: str | None = None,
) -> AdmissionDecision:
    """Of a request that was let in. `degraded` is what was taken from it, in words; `fallback` the
    deployment that serves it in the place of the one that it asked for."""
    of, load = admitted.request_class, considered.load
    reason = "a slot is free" if load.has_free_slot else "it may wait: every bound leaves room"
    if considered.num_shed:
        reason = f"{considered.num_shed} that waited made way for it"
    return AdmissionDecision(
        outcome=AdmissionOutcome.DEGRADED if degraded else AdmissionOutcome.ADMITTED,
        snapshot_version=snapshot_version,
        policy_revision=admitted.policy_revision,
        request_class=of.name,
        reason=clip(why_degraded or reason),
        signals=keep_signals(_signals(considered, of, None)),
        degraded=degraded,
        asked_output_tokens=facts.max_output_tokens if degraded else None,
        fallback=fallback,
        overrides=considered.overrides,
    )


def _signals(
    considered: Considered, request_class: ClassPolicy | None, kind: RejectionKind | None
) -> Iterator[Signal]:
    """What was read, each beside what it was held against."""
    yield from _of_caller(considered, kind)
    if considered.load.has_free_slot or request_class is None:
        return
    yield from _of_class(considered, request_class, kind)
    yield from _of_queue(considered, kind)


def _of_caller(considered: Considered, kind: RejectionKind | None) -> Iterator[Signal]:
    load, limits = considered.load, considered.limits
    if load.tenant_in_flight is not None:
        yield _signal(
            "tenant_in_flight", load.tenant_in_flight, "requests", limits.max_concurrent,
            kind is RejectionKind.TENANT_CONCURRENCY,
        )  # fmt: skip
        yield _signal(
            "tenant_tokens", load.tenant_tokens, "tokens", limits.tokens_per_minute,
            kind is RejectionKind.TENANT_TOKENS,
        )  # fmt: skip
    if load.prompt_tokens_in_flight is not None:
        yield _signal(
            "prompt_tokens_in_flight", load.prompt_tokens_in_flight, "tokens",
            considered.terms.max_prompt_tokens_in_flight, kind is RejectionKind.PROMPT_TOKENS,
        )  # fmt: skip
    if load.retry is not None:
        yield _signal(
            "retries", load.retry.num_retries, "requests", load.retry.num_allowed,
            kind is RejectionKind.RETRY_BUDGET,
        )  # fmt: skip


def _of_class(
    considered: Considered, request_class: ClassPolicy, kind: RejectionKind | None
) -> Iterator[Signal]:
    load, drain = considered.load, considered.load.drain
    num_waiting = load.num_waiting_by_class.get(request_class.name, 0)
    is_full = kind is RejectionKind.QUEUE_FULL and num_waiting >= request_class.max_queue
    yield _signal("waiting_of_class", num_waiting, "requests", request_class.max_queue, is_full)
    yield Signal(
        name="drain_rate",
        value=None if drain is None else drain.requests_per_second,
        unit="requests/s",
        age_seconds=None if drain is None else drain.age_seconds,
        is_used=drain is not None and drain.is_current,
    )
    expected = estimate_wait(considered.terms.classes, request_class, load)
    if expected is not None and math.isfinite(expected.seconds):
        limit = find_deadline(request_class, load)
        is_late = kind is RejectionKind.DEADLINE
        yield _signal("expected_wait", expected.seconds, "s", limit, is_late)


def _of_queue(considered: Considered, kind: RejectionKind | None) -> Iterator[Signal]:
    load, limits = considered.load, considered.terms.queue
    overload = considered.terms.overload
    degrade = overload.degrade if overload else None
    age_limit = limits.max_age_seconds
    if age_limit is None and degrade is not None:
        age_limit = degrade.queue_age_seconds
    yield _signal("queue_age", load.queue_age, "s", age_limit, kind is RejectionKind.QUEUE_AGE)
    for name, value, limit in (
        ("requests", load.num_waiting, limits.max_requests),
        ("tokens", load.num_waiting_tokens, limits.max_tokens),
        ("bytes", load.num_waiting_bytes, limits.max_bytes),
    ):
        yield _signal(f"waiting_{name}", value, name, limit, False)


def _signal(
    name: str, value: float | None, unit: str, limit: float | None, is_decisive: bool
) -> Signal:
    """A count of this gateway's own, of this very moment."""
    return Signal(name=name, value=value, unit=unit, limit=limit, is_decisive=is_decisive)
