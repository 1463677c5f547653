"""Who may enter: a pure decision over the enforced policy, with its reason.

Who may not is told why, with the numbers, and when to come again: 429 says that the caller is over
its own limits, 503 that the service is short. Whoever could start at once is held back by limits
of its tenant and by the prompts in flight alone; bounds of the queue are of those who wait. A queue
that one tenant has filled is not full for another: the newest of who has most waiting for its
weight makes way. None of it costs more when more wait.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import msgspec

from dataplane.admission.class_matching import RequestFacts
from dataplane.admission.load_signals import QueueLoad
from dataplane.admission.shedding import find_pressure, goes_before
from dataplane.admission.wait_estimate import (
    estimate_wait,
    explain_deadline,
    find_deadline,
    find_late_wait,
)
from dataplane.leases.tenant_use import UseLimit
from dataplane.policy import AdmissionPolicyTerms, ClassPolicy, DegradeTerms

_LONGEST_RETRY_AFTER = 600
"""Seconds. A longer pause says no more than that it is long."""
_UNKNOWN_RETRY_AFTER = 1
_NO_REPLICA_RETRY_AFTER = 5


class RejectionKind(StrEnum):
    """Why a request may not even wait: the `code` of the error that its caller gets."""

    DRAINING = "draining"
    NO_REPLICA = "no_replica"
    NO_CLASS = "no_class"
    TENANT_CONCURRENCY = "tenant_concurrency"
    """The tenant has as many requests in flight as it may."""
    TENANT_TOKENS = "tenant_tokens"
    """The tenant has used the tokens of this minute."""
    RETRY_BUDGET = "retry_budget"
    """It is a retry, there are too many of them, and it would have to wait."""
    PROMPT_TOKENS = "prompt_tokens"
    """Too many prompt tokens are in flight."""
    QUEUE_FULL = "queue_full"
    """As many requests, tokens or bytes wait as may."""
    QUEUE_AGE = "queue_age"
    """Somebody waits for too long already."""
    DEADLINE = "deadline_unreachable"
    """Its deadline would pass while it waits."""
    SHED = "shed"
    """Its class gives way to another one."""

    @property
    def status(self) -> int:
        """Of the HTTP answer."""
        return _STATUS.get(self, 503)

    @property
    def is_for_good(self) -> bool:
        """To try again at once only makes it worse, or changes nothing."""
        return self in (RejectionKind.NO_CLASS, RejectionKind.RETRY_BUDGET)


_STATUS = {
    RejectionKind.NO_CLASS: 403,
    RejectionKind.TENANT_CONCURRENCY: 429,
    RejectionKind.TENANT_TOKENS: 429,
}


class Admitted(msgspec.Struct, frozen=True, kw_only=True):
    """The request may wait for a slot, in this class."""

    request_class: ClassPolicy
    policy_revision: str
    max_output_tokens: int
    """What was asked for, or less where the service is degraded."""
    why_degraded: str | None = None
    """None: it is not."""
    fallback: str | None = None
    """The deployment to try first; None: no other."""
    makes_way: tuple[str, ...] = ()
    """Classes of which waiting requests must leave first, until this one fits: first to go
    first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """The request may not wait."""

    kind: RejectionKind
    reason: str
    policy_revision: str
    request_class: ClassPolicy | None = None
    retry_after_seconds: int | None = None
    """None: trying again changes nothing."""
    why_degraded: str | None = None
    fallback: str | None = None
    """The deployment that may take it instead; None: no other."""

    @property
    def status(self) -> int:
        """Of the HTTP answer."""
        return self.kind.status


class _Case(msgspec.Struct):
    """One request before one policy."""

    terms: AdmissionPolicyTerms
    request_class: ClassPolicy
    facts: RequestFacts
    load: QueueLoad
    max_output_tokens: int
    may_shed: bool

    def reject(self, kind: RejectionKind, reason: str, seconds: float | None) -> Rejected:
        return Rejected(
            kind=kind,
            reason=reason,
            policy_revision=self.terms.revision,
            request_class=self.request_class,
            retry_after_seconds=whole_seconds(seconds),
        )

    def seconds_to_drain(self, num_requests: int) -> float | None:
        """How long so many take to begin; None: nobody can tell."""
        drain = self.load.drain
        if drain is None or not drain.is_current:
            return None
        return drain.seconds_for(num_requests)

    def who_makes_way(self) -> tuple[str, ...]:
        """Classes of which somebody waits, first to go first."""
        names = goes_before(self.terms, self.request_class.name) if self.may_shed else ()
        return tuple(name for name in names if self.load.num_waiting_by_class.get(name, 0))


def admit(
    terms: AdmissionPolicyTerms,
    request_class: ClassPolicy | None,
    facts: RequestFacts,
    load: QueueLoad,
    may_shed: bool = True,
) -> Admitted | Rejected:
    """Decide whether a request may wait; what is admitted starts at once when a slot is free.

    `request_class` is the one of `terms` that takes it; None: no class does. Without `may_shed`
    nobody who waits can make way for it.
    """
    refused = _refuse_anybody(terms, request_class, load)
    if refused is not None:
        return refused
    assert request_class is not None
    degrade = _find_degrade(terms, load)
    limit = facts.max_output_tokens
    if degrade is not None and degrade.max_tokens is not None:
        limit = min(limit, degrade.max_tokens)
    case = _Case(terms, request_class, facts, load, limit, may_shed)
    over_limits = _refuse_tenant(case)
    if over_limits is not None:
        return over_limits
    decision = _refuse_at_all(case) or (None if load.has_free_slot else _refuse_to_wait(case))
    why = None if degrade is None else _why_degraded(degrade, load)
    fallback = None if degrade is None else degrade.fallback
    if isinstance(decision, Rejected):
        return _with_fallback(decision, why, fallback)
    return Admitted(
        request_class=request_class,
        policy_revision=terms.revision,
        max_output_tokens=limit,
        why_degraded=why if fallback is not None or limit < facts.max_output_tokens else None,
        fallback=fallback,
        makes_way=tuple(decision or ()),
    )


def _refuse_anybody(
    terms: AdmissionPolicyTerms, request_class: ClassPolicy | None, load: QueueLoad
) -> Rejected | None:
    if load.is_draining:
        kind, why = RejectionKind.DRAINING, "this gateway is shutting down"
        seconds: int | None = 1
    elif request_class is None:
        kind = RejectionKind.NO_CLASS
        why = f"no request class of policy {terms.revision} takes this request"
        seconds = None
    elif load.num_replicas == 0:
        kind, why = RejectionKind.NO_REPLICA, "no replica serves this deployment"
        seconds = _NO_REPLICA_RETRY_AFTER
    else:
        return None
    return Rejected(
        kind=kind,
        reason=why,
        policy_revision=terms.revision,
        request_class=request_class,
        retry_after_seconds=seconds,
    )


def _refuse_tenant(case: _Case) -> Rejected | None:
    shortage = case.load.tenant_shortage
    if shortage is None:
        return None
    is_tokens = shortage.limit is UseLimit.TOKENS
    kind = RejectionKind.TENANT_TOKENS if is_tokens else RejectionKind.TENANT_CONCURRENCY
    seconds = shortage.retry_after_seconds
    return case.reject(
        kind, shortage.reason, case.seconds_to_drain(1) if seconds is None else seconds
    )


def _refuse_at_all(case: _Case) -> Rejected | None:
    """Where a free slot helps nobody."""
    shortage = case.load.prompt_shortage
    if shortage is None:
        return None
    seconds = case.seconds_to_drain(1 + case.load.num_waiting)
    return case.reject(RejectionKind.PROMPT_TOKENS, shortage.reason, seconds)


def _refuse_to_wait(case: _Case) -> Rejected | Sequence[str] | None:
    """Of a request that would have to wait: why it may not, or the classes that make way for it;
    None: it may."""
    return (
        _refuse_retry(case)
        or _refuse_shed(case)
        or _refuse_class_full(case)
        or _refuse_late(case)
        or _refuse_queue(case)
    )


def _refuse_retry(case: _Case) -> Rejected | None:
    retry = case.load.retry
    if retry is None or not retry.is_over:
        return None
    overload = case.terms.overload
    assert overload is not None, "nobody counts retries without a budget"
    reason = (
        f"{retry.why_retry}, and {retry.num_retries:.0f} retries were let in beside "
        f"{retry.num_first:.0f} first tries, where retry_budget is {overload.retry_budget:.0%}"
    )
    seconds = case.seconds_to_drain(case.load.num_waiting)
    return case.reject(RejectionKind.RETRY_BUDGET, reason, seconds)


def _refuse_shed(case: _Case) -> Rejected | None:
    pressure = find_pressure(case.terms, case.request_class, case.load)
    if pressure is None:
        return None
    reason = f"class {case.request_class.name} gives way: {pressure.reason}"
    return case.reject(RejectionKind.SHED, reason, case.seconds_to_drain(case.load.num_waiting))


def _refuse_class_full(case: _Case) -> Rejected | Sequence[str] | None:
    own = case.request_class
    num_waiting = case.load.num_waiting_by_class.get(own.name, 0)
    if num_waiting < own.max_queue:
        return None
    if case.may_shed and case.load.is_outweighed and own.max_queue:
        return (own.name,)
    reason = (
        f"{num_waiting} requests of class {own.name} are waiting, and max_queue is {own.max_queue}"
    )
    expected = estimate_wait(case.terms.classes, own, case.load)
    seconds = None if expected is None else expected.seconds
    return case.reject(RejectionKind.QUEUE_FULL, reason, seconds)


def _refuse_late(case: _Case) -> Rejected | Sequence[str] | None:
    own = case.request_class
    classes = case.terms.classes
    expected = find_late_wait(classes, own, case.load)
    deadline = find_deadline(own, case.load)
    if expected is None or deadline is None:
        return None
    waiting = case.who_makes_way()
    best = estimate_wait(classes, own, case.load, waiting) if waiting else None
    if best is not None and best.seconds <= deadline:
        return waiting
    rate = f"{expected.requests_per_second:.2g} begin in a second"
    if expected.own_requests_per_second is not None:
        rate += f", {expected.own_requests_per_second:.2g} of class {own.name}"
    reason = (
        f"{expected.num_ahead} requests go before it and {rate}: engine work would begin in "
        f"{expected}, and {explain_deadline(own, case.load)}"
    )
    return case.reject(RejectionKind.DEADLINE, reason, expected.seconds - deadline)


def _refuse_queue(case: _Case) -> Rejected | Sequence[str] | None:
    found = _find_queue_bound(case)
    if found is None:
        return None
    if waiting := case.who_makes_way():
        return waiting
    if case.may_shed and case.load.is_outweighed:
        return (case.request_class.name,)
    kind, reason = found
    return case.reject(kind, reason, case.seconds_to_drain(case.load.num_waiting))


def _find_queue_bound(case: _Case) -> tuple[RejectionKind, str] | None:
    limits, load, facts = case.terms.queue, case.load, case.facts
    if limits.max_requests is not None and load.num_waiting >= limits.max_requests:
        return RejectionKind.QUEUE_FULL, (
            f"{load.num_waiting} requests are waiting, and limits.queue.requests is "
            f"{limits.max_requests}"
        )
    num_tokens = facts.num_prompt_tokens + facts.num_sequences * case.max_output_tokens
    if limits.max_tokens is not None and load.num_waiting_tokens + num_tokens > limits.max_tokens:
        return RejectionKind.QUEUE_FULL, (
            f"{load.num_waiting_tokens} tokens are waiting, this request may come to {num_tokens}, "
            f"and limits.queue.tokens is {limits.max_tokens}"
        )
    num_bytes = facts.num_bytes
    if limits.max_bytes is not None and load.num_waiting_bytes + num_bytes > limits.max_bytes:
        return RejectionKind.QUEUE_FULL, (
            f"{load.num_waiting_bytes} bytes are waiting, this request has {num_bytes}, and "
            f"limits.queue.bytes is {limits.max_bytes}"
        )
    if limits.max_age_seconds is not None and load.queue_age > limits.max_age_seconds:
        return RejectionKind.QUEUE_AGE, (
            f"the oldest has waited {load.queue_age:.1f} s, and limits.queue.age is "
            f"{limits.max_age_seconds:g} s"
        )
    return None


def _find_degrade(terms: AdmissionPolicyTerms, load: QueueLoad) -> DegradeTerms | None:
    """What answers are made of now, where that is less than usual."""
    degrade = terms.overload.degrade if terms.overload else None
    if degrade is None:
        return None
    age, bound = load.queue_age, degrade.queue_age_seconds
    is_over = age >= bound if degrade.includes_bound else age > bound
    return degrade if is_over else None


def _why_degraded(degrade: DegradeTerms, load: QueueLoad) -> str:
    return f"queue age {load.queue_age:.1f} s is over {degrade.queue_age_seconds:g} s"


def _with_fallback(rejected: Rejected, why: str | None, fallback: str | None) -> Rejected:
    return rejected if fallback is None else replace(rejected, why_degraded=why, fallback=fallback)


def whole_seconds(seconds: float | None) -> int:
    """Of a Retry-After; None: nobody can tell."""
    if seconds is None:
        return _UNKNOWN_RETRY_AFTER
    if seconds >= _LONGEST_RETRY_AFTER:
        return _LONGEST_RETRY_AFTER
    return max(1, math.ceil(seconds))
