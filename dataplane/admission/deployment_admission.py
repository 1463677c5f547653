"""Admission of one deployment at one gateway: the pure decision over what is counted here.

What admission gives out (a place among a tenant's requests, tokens of its minute, prompt tokens
in flight) is held by one lease, the hold, that ends with its request. A policy that asks for none
of it costs nothing: nothing is counted, and there is no hold.

    consider -> Considered (nothing is taken) --hold--> AdmissionHold | None -> release

Nobody may be considered between the two for a request that is then let in.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from dataplane.admission.admit import Admitted, Rejected, admit, whole_seconds
from dataplane.admission.class_matching import RequestFacts
from dataplane.admission.load_signals import QueueLoad
from dataplane.admission.overrides import applied_to, find_bypass
from dataplane.admission.retry_budget import RetryBudget, RetryStanding
from dataplane.admission.wait_estimate import may_be_late
from dataplane.clock import MonotonicClock
from dataplane.decision import AppliedOverride
from dataplane.enforced_snapshot import CompiledPolicy
from dataplane.leases.kv_reservation import KVDemand, demand_of
from dataplane.leases.lease import Lease
from dataplane.leases.output_lengths import OutputLengths
from dataplane.leases.prompt_tokens_in_flight import PromptTokensInFlight
from dataplane.leases.tenant_use import TenantUse, TokenLease
from dataplane.policy import (
    AdmissionPolicyTerms,
    ClassPolicy,
    Override,
    TenantLimits,
    TenantPolicy,
)
from dataplane.queueing.queue import DeploymentQueue

_MOST_SHED = 16
"""Requests that make way for one: it is decided anew after each, and streams wait meanwhile."""
_EXPECTED_QUANTILE = 0.9


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """One request that is about to be decided on."""

    tenant: TenantPolicy
    facts: RequestFacts
    num_slots: int = 1
    why_retry: str | None = None
    """How it was recognised as tried before; None: it was not."""


class Considered(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided, by which terms, and what was read for it."""

    decision: Admitted | Rejected
    terms: AdmissionPolicyTerms
    limits: TenantLimits
    """Of its tenant, in these terms."""
    load: QueueLoad
    num_expected_tokens: int
    """Of its prompt, and those that such requests generate."""
    kv: KVDemand | None = None
    """Blocks of KV cache that are reserved for it where it goes; None: its policy asks for none."""
    num_shed: int = 0
    """Requests that made way for it."""
    overrides: tuple[AppliedOverride, ...] = ()

    @property
    def class_name(self) -> str:
        """Of a request that some class takes."""
        assert self.decision.request_class is not None
        return self.decision.request_class.name


@dataclass(slots=True, eq=False)
class AdmissionHold:
    """What one admitted request holds until it is over."""

    class_name: str
    lengths: OutputLengths
    _tokens: TokenLease | None
    _prompt: Lease | None
    kv: KVDemand | None = None
    """Blocks that are to be reserved for it where it goes; the lease of its slots holds them."""
    _is_settled: bool = False

    def settle(self, num_tokens: int, answer_lengths: Sequence[int] = ()) -> None:
        """What it really took, prompt and output, is known: its tenant is charged with it. Of
        answers that came to their end, it is also known how long such answers are. Once: what
        comes later is no error and changes nothing."""
        if self._is_settled:
            return
        self._is_settled = True
        if self._tokens is not None:
            self._tokens.settle(num_tokens)
        for length in answer_lengths:
            self.lengths.note(self.class_name, length)

    def release(self) -> None:
        """Give back what is held. Twice is no error."""
        for lease in (self._tokens, self._prompt):
            if lease is not None:
                lease.release()


class DeploymentAdmission:
    """Decides for `queue`. All methods are synchronous and belong to one thread."""

    def __init__(
        self,
        deployment: str,
        queue: DeploymentQueue,
        clock: MonotonicClock,
        beside: "DeploymentAdmission | None" = None,
    ) -> None:
        """`beside`: of the same deployment, for its other arm: what tenants may have, they may
        have of both together."""
        self.queue = queue
        self.has_own_accounts = beside is None
        self.retries: RetryBudget = beside.retries if beside else RetryBudget(clock)
        self.use: TenantUse = beside.use if beside else TenantUse(clock)
        self.prompt_tokens: PromptTokensInFlight = (
            beside.prompt_tokens if beside else PromptTokensInFlight()
        )
        self.lengths = OutputLengths()
        self._deployment = deployment
        self._clock = clock

    def consider(
        self,
        policy: CompiledPolicy,
        arrival: Arrival,
        num_replicas: int,
        is_draining: bool = False,
        overrides: Iterable[Override] = (),
        *,
        only_looks: bool = False,
    ) -> Considered:
        """Whether a request may come in. Takes nothing, but for those that make way for it; with
        `only_looks` nobody does, and it is decided as if somebody had."""
        request_class = policy.find_class(arrival.tenant, arrival.facts)
        applied: tuple[AppliedOverride, ...] = ()
        terms = policy.terms
        if overrides:
            terms, request_class, applied = self._override(
                policy, arrival, request_class, overrides
            )
        num_expected = self._num_expected(terms, arrival.facts, request_class)
        kv = self._blocks(terms, arrival.facts, request_class)
        num_shed, may_shed = 0, True
        while True:
            load = self._read(
                terms, arrival, request_class, num_expected, kv, num_replicas, is_draining
            )
            decision = admit(terms, request_class, arrival.facts, load, may_shed=may_shed)
            if isinstance(decision, Rejected) or not decision.makes_way or only_looks:
                break
            has_shed = self._shed_one(decision)
            num_shed += has_shed
            may_shed = has_shed and num_shed < _MOST_SHED
        return Considered(
            decision=decision,
            terms=terms,
            limits=terms.limits_of(arrival.tenant.name),
            load=load,
            num_expected_tokens=num_expected,
            kv=_within(kv, decision),
            num_shed=num_shed,
            overrides=applied,
        )

    def let_in_openly(
        self, policy: CompiledPolicy, max_output_tokens: int, num_slots: int, num_replicas: int
    ) -> Admitted | None:
        """What `consider` comes to of a policy that asks nothing of a request, at a fraction of
        the cost; there is nothing to hold. None: it may come to something else."""
        open_class = policy.open_class
        if open_class is None or not num_replicas:
            return None
        queue = self.queue
        num_waiting = queue.num_waiting_by_class().get(open_class.name, 0)
        if num_waiting >= open_class.max_queue and not queue.has_room_for(num_slots):
            return None
        return Admitted(
            request_class=open_class,
            policy_revision=policy.terms.revision,
            max_output_tokens=max_output_tokens,
        )

    def may_refuse(self, policy: CompiledPolicy, tenant: str) -> bool:
        """Whether a request of one slot may be refused now however short it is, as far as can be
        told without its length: whose class depends on that, nobody can tell."""
        if policy.classes.reads_token_counts:
            return False
        if not self.queue.has_room_for(1, None):
            return True
        most = policy.terms.limits_of(tenant).max_concurrent
        return most is not None and self.use.num_in_flight(tenant) >= most

    def hold(self, arrival: Arrival, considered: Considered) -> AdmissionHold | None:
        """Let in what was considered just now: take what it holds. None: it holds nothing."""
        if _retry_share(considered.terms) is not None:
            self._count_try(arrival)
        terms, tenant = considered.terms, arrival.tenant.name
        tokens: TokenLease | None = None
        prompt: Lease | None = None
        if terms.tenants:
            taken = self.use.try_take(tenant, considered.num_expected_tokens, considered.limits)
            assert isinstance(taken, TokenLease), "it was considered just now"
            tokens = taken
        if terms.max_prompt_tokens_in_flight is not None:
            limit = terms.max_prompt_tokens_in_flight
            taken_prompt = self.prompt_tokens.try_take(arrival.facts.num_prompt_tokens, limit)
            assert isinstance(taken_prompt, Lease), "it was considered just now"
            prompt = taken_prompt
        if tokens is None and prompt is None and terms.kv is None:
            return None
        return AdmissionHold(considered.class_name, self.lengths, tokens, prompt, considered.kv)

    def refuse(self, arrival: Arrival) -> None:
        """What was considered just now is refused: it came all the same."""
        if arrival.why_retry is None:
            self.retries.note_first()

    def _count_try(self, arrival: Arrival) -> None:
        if arrival.why_retry is None:
            self.retries.note_first()
        else:
            self.retries.note_retry()

    def may_retry(self, terms: AdmissionPolicyTerms) -> bool:
        """Whether the budget leaves one more try of a request that lost its replica; it is counted
        where it does."""
        share = _retry_share(terms)
        if share is not None and self.retries.stand("its replica was lost", share).is_over:
            return False
        self.retries.note_retry()
        return True

    def retry_after_seconds(self) -> int:
        """For whoever waited, and leaves without an answer."""
        drain = self.queue.read_drain()
        seconds = None
        if drain is not None and drain.is_current:
            seconds = drain.seconds_for(self.queue.num_waiting)
        return whole_seconds(seconds)

    def check_integrity(self) -> None:
        """Raises AssertionError when something is counted that nobody holds."""
        self.use.check_integrity()
        self.prompt_tokens.check_integrity()

    def _override(
        self,
        policy: CompiledPolicy,
        arrival: Arrival,
        request_class: ClassPolicy | None,
        overrides: Iterable[Override],
    ) -> tuple[AdmissionPolicyTerms, ClassPolicy | None, tuple[AppliedOverride, ...]]:
        """The terms that hold for it, its class of them, and what brought that about."""
        tenant = arrival.tenant.name
        name = None if request_class is None else request_class.name
        applied = applied_to(overrides, self._deployment, tenant, name)
        if name is None or find_bypass(overrides, self._deployment, tenant, name) is None:
            return policy.terms, request_class, applied
        return policy.unlimited, policy.unlimited_class(name), applied

    def _num_expected(
        self, terms: AdmissionPolicyTerms, facts: RequestFacts, request_class: ClassPolicy | None
    ) -> int:
        most = facts.max_output_tokens
        if request_class is not None and (terms.tenants or terms.kv):
            quantile = terms.kv.quantile if terms.kv else _EXPECTED_QUANTILE
            most = self.lengths.expect(request_class.name, quantile, most).num_tokens
        return facts.num_prompt_tokens + facts.num_sequences * most

    def _blocks(
        self, terms: AdmissionPolicyTerms, facts: RequestFacts, request_class: ClassPolicy | None
    ) -> KVDemand | None:
        if terms.kv is None or request_class is None:
            return None
        most = facts.max_output_tokens
        expected = self.lengths.expect(request_class.name, terms.kv.quantile, most)
        return demand_of(terms.kv, facts.num_prompt_tokens, facts.num_sequences, most, expected)

    def _read(
        self,
        terms: AdmissionPolicyTerms,
        arrival: Arrival,
        request_class: ClassPolicy | None,
        num_expected_tokens: int,
        kv: KVDemand | None,
        num_replicas: int,
        is_draining: bool,
    ) -> QueueLoad:
        """No more than the terms ask about: of whoever can start at once, nothing of the queue."""
        queue, tenant = self.queue, arrival.tenant.name
        has_free_slot = queue.has_room_for(arrival.num_slots, kv)
        load = QueueLoad(
            num_waiting_by_class=queue.num_waiting_by_class(),
            has_free_slot=has_free_slot,
            num_replicas=num_replicas,
            is_draining=is_draining,
            retry=self._stand(terms, arrival),
        )
        if not has_free_slot:
            load.num_waiting = queue.num_waiting
            load.num_waiting_tokens = queue.num_waiting_tokens
            load.num_waiting_bytes = queue.num_waiting_bytes
            load.oldest_age_by_class = self._ages()
            load.drain = queue.read_drain()
            if request_class is not None:
                load.own_drain = queue.promises.read_drain_of(request_class.name)
            num_prompt = arrival.facts.num_prompt_tokens
            load.first_token = queue.promises.read_first_token(num_prompt)
            if request_class is not None and _is_full(terms, request_class, load):
                weight = terms.limits_of(tenant).weight
                load.is_outweighed = queue.is_outweighed(
                    request_class.name, tenant, num_expected_tokens / weight
                )
            if request_class is not None and may_be_late(request_class, load):
                name = request_class.name
                load.num_before_by_class = {name: queue.num_before(name, tenant)}
        if terms.tenants:
            limits = terms.limits_of(tenant)
            load.tenant_in_flight = self.use.num_in_flight(tenant)
            load.tenant_tokens = self.use.num_tokens(tenant)
            load.tenant_shortage = self.use.find_shortage(tenant, num_expected_tokens, limits)
        if terms.max_prompt_tokens_in_flight is not None:
            load.prompt_tokens_in_flight = self.prompt_tokens.num_tokens
            load.prompt_shortage = self.prompt_tokens.find_shortage(
                arrival.facts.num_prompt_tokens, terms.max_prompt_tokens_in_flight
            )
        return load

    def _ages(self) -> dict[str, float]:
        now = self._clock()
        return {name: now - at for name, at in self.queue.oldest_entered_at_by_class().items()}

    def _stand(self, terms: AdmissionPolicyTerms, arrival: Arrival) -> RetryStanding | None:
        share = _retry_share(terms)
        if arrival.why_retry is None or share is None:
            return None
        return self.retries.stand(arrival.why_retry, share)

    def _shed_one(self, admitted: Admitted) -> bool:
        own = admitted.request_class.name
        for name in admitted.makes_way:
            reason = f"it made way for class {own}"
            if name == own:
                reason = "it made way for a tenant of its class that has less waiting"
            if self.queue.shed(name, reason) is not None:
                return True
        return False


def _within(kv: KVDemand | None, decision: Admitted | Rejected) -> KVDemand | None:
    """No more of the output than may be generated after all."""
    if kv is None or isinstance(decision, Rejected):
        return kv
    num_output = decision.max_output_tokens
    if num_output >= kv.num_output_tokens:
        return kv
    return dataclasses.replace(kv, num_output_tokens=num_output)


def _is_full(terms: AdmissionPolicyTerms, request_class: ClassPolicy, load: QueueLoad) -> bool:
    """As many wait of its class, or in all, as may."""
    most = terms.queue.max_requests
    if most is not None and load.num_waiting >= most:
        return True
    return load.num_waiting_by_class.get(request_class.name, 0) >= request_class.max_queue


def _retry_share(terms: AdmissionPolicyTerms) -> float | None:
    return terms.overload.retry_budget if terms.overload else None
