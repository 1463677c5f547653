"""What a simulated gateway decides of a call when it arrives, by the policy of its deployment."""

from dataplane.admission.admit import Admitted, Rejected
from dataplane.admission.class_matching import RequestFacts
from dataplane.admission.deployment_admission import (
    AdmissionHold,
    Arrival,
    Considered,
    DeploymentAdmission,
)
from dataplane.admission_record import admission_record, rejection_record
from dataplane.decision import AdmissionDecision
from dataplane.enforced_snapshot import EnforcedSnapshot
from dataplane.policy import DeploymentPolicy, TenantPolicy
from dataplane.queueing.demand import QueueDemand
from dataplane.queueing.queue import DeploymentQueue
from dataplane.routing.prompt_blocks import hash_blocks
from dataplane.routing.request import RoutingRequest
from dataplane.simulation.call import Call
from dataplane.simulation.request_trace import RequestTrace


class FleetAdmission:
    """Decides by the real admission of one deployment."""

    def __init__(
        self,
        enforced: EnforcedSnapshot,
        deployment: DeploymentPolicy,
        queue: DeploymentQueue,
        max_choices: int,
    ) -> None:
        """`max_choices` bounds the answers to one prompt."""
        self._max_choices = max_choices
        self._deployment = deployment
        self._policy = enforced.policy_of(deployment)
        self._admission = DeploymentAdmission(deployment.name, queue, queue.clock)
        self._tenants = {tenant.name: tenant for tenant in enforced.snapshot.tenants}
        self._snapshot_version = enforced.snapshot.version
        self._weights: dict[str, float] = {}
        self._router = queue.router
        self._is_plainly_routed = (
            queue.router.affinity_header is None and not queue.router.wants_prefixes
        )

    def class_of(self, call: Call) -> str | None:
        """The request class that takes such a call; None: no class does."""
        facts = self._facts(call, self.max_output_tokens(call))
        found = self._policy.find_class(self._tenant(call), facts)
        return None if found is None else found.name

    def max_output_tokens(self, call: Call) -> int:
        """How many tokens may be generated, where they fit."""
        most = self._deployment.max_model_len
        return call.max_tokens or (len(call.answer) if most is None else most - len(call.prompt))

    def why_invalid(self, call: Call) -> str | None:
        """Why it can never be served; None: it can."""
        if call.further_answers and (why := self._why_not_so_many(call.num_sequences)):
            return why
        most, num_prompt = self._deployment.max_model_len, len(call.prompt)
        if most is None or most - num_prompt >= (call.max_tokens or 1):
            return None
        return f"the model's maximum context length is {most} tokens; the prompt has {num_prompt}"

    def _why_not_so_many(self, num_sequences: int) -> str | None:
        of_policy = self._deployment.policy.max_active_per_replica
        if num_sequences > self._max_choices:
            return f"'n' is {num_sequences}; at most {self._max_choices} answers are given"
        if of_policy is not None and num_sequences > of_policy:
            return f"'n' is {num_sequences}; a replica runs at most {of_policy} answers at once"
        return None

    def demand(
        self,
        call: Call,
        max_output_tokens: int,
        num_slots: int,
        hold: AdmissionHold | None = None,
    ) -> QueueDemand:
        """What it asks of the queue. A simulated call has no body that would take bytes."""
        tenant = call.caller.tenant
        weight = self._weights.get(tenant)
        if weight is None:
            weight = self._deployment.policy.limits_of(tenant).weight
            self._weights[tenant] = weight
        num_prompt, num_output = len(call.prompt), call.num_sequences * max_output_tokens
        num_tokens = num_prompt + num_output
        routing = self._routing(call, num_prompt, num_output)
        kv = None if hold is None else hold.kv
        return QueueDemand(
            num_slots, tenant, weight, num_tokens, num_tokens, routing=routing, kv=kv
        )

    def _routing(self, call: Call, num_prompt: int, num_output: int) -> RoutingRequest:
        if self._is_plainly_routed:
            return RoutingRequest(num_prompt_tokens=num_prompt, num_output_tokens=num_output)
        header = self._router.affinity_header
        caller = call.caller
        session = None if header is None else caller.headers.get(header)
        return RoutingRequest(
            num_prompt_tokens=num_prompt,
            num_output_tokens=num_output,
            blocks=hash_blocks(call.prompt, caller.tenant) if self._router.wants_prefixes else (),
            affinity_key=f"{caller.tenant}/{session}" if session else None,
        )

    def decide(
        self,
        call: Call,
        max_output_tokens: int,
        is_draining: bool,
        num_slots: int,
        num_tries: int,
        trace: RequestTrace | None = None,
    ) -> tuple[Admitted | Rejected, AdmissionHold | None]:
        """Whether it may wait for so many slots, as the queue is now, and what it then holds until
        it is over. `num_tries` were answered with nothing before; `trace` is told why."""
        num_replicas = len(self._deployment.replicas)
        if not is_draining and trace is None:
            openly = self._admission.let_in_openly(
                self._policy, max_output_tokens, num_slots, num_replicas
            )
            if openly is not None:
                return openly, None
        arrival = Arrival(
            tenant=self._tenant(call),
            facts=self._facts(call, max_output_tokens),
            num_slots=num_slots,
            why_retry=None if num_tries == 0 else "the same call was not answered before",
        )
        considered = self._admission.consider(self._policy, arrival, num_replicas, is_draining)
        decision = considered.decision
        if trace is not None:
            trace.decision = self._explain(considered, arrival.facts)
        if isinstance(decision, Rejected):
            self._admission.refuse(arrival)
            return decision, None
        return decision, self._admission.hold(arrival, considered)

    def _explain(self, considered: Considered, facts: RequestFacts) -> AdmissionDecision:
        decision = considered.decision
        if isinstance(decision, Rejected):
            return rejection_record(considered, decision, self._snapshot_version)
        most = decision.max_output_tokens
        degraded = (f"max_tokens={most}",) if most < facts.max_output_tokens else ()
        why = decision.why_degraded if degraded else None
        return admission_record(considered, decision, facts, self._snapshot_version, degraded, why)

    def may_retry(self) -> bool:
        """Whether a request that lost its replica may be sent to another."""
        return self._admission.may_retry(self._policy.terms)

    def retry_after_seconds(self) -> int:
        """Told to who waited and gets no answer."""
        return self._admission.retry_after_seconds()

    def check_integrity(self) -> None:
        """Raises AssertionError when something is counted that nobody holds."""
        self._admission.check_integrity()
        self._admission.queue.kv.check_integrity()

    def held(self) -> dict[str, int]:
        """What requests hold, by what it is; what nothing is held of is not in it."""
        admission = self._admission
        counts = {
            "requests of tenants": sum(admission.use.in_flight_by_tenant().values()),
            "prompt tokens in flight": admission.prompt_tokens.num_tokens,
            "KV blocks": sum(admission.queue.kv.reserved_by_replica().values()),
        }
        return {name: number for name, number in counts.items() if number}

    def _facts(self, call: Call, max_output_tokens: int) -> RequestFacts:
        return RequestFacts(
            model=self._deployment.model_name,
            stream=call.caller.is_stream,
            num_prompt_tokens=len(call.prompt),
            max_output_tokens=max_output_tokens,
            headers=call.caller.headers,
            num_sequences=call.num_sequences,
        )

    def _tenant(self, call: Call) -> TenantPolicy:
        name = call.caller.tenant
        tenant = self._tenants.get(name)
        if tenant is None:
            tenant = self._tenants[name] = TenantPolicy(name=name)
        return tenant
