"""A policy that decides beside the one that is enforced, and enforces nothing.

It keeps accounts of its own of what tenants use and try again, charged by what it would have let
in, so that its decisions follow from one another as they would. It reads the queue that there is:
who waits was let in, and put into a class, by the policy that is enforced, and nobody makes way for
anybody. How long its own queue would be nobody can know.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from dataplane.admission.admit import Rejected
from dataplane.admission.deployment_admission import (
    AdmissionHold,
    Arrival,
    Considered,
    DeploymentAdmission,
)
from dataplane.clock import MonotonicClock
from dataplane.enforced_snapshot import CompiledPolicy
from dataplane.policy import Override, RolloutTerms, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadowed:
    """What it came to, and what it would hold."""

    considered: Considered
    hold: AdmissionHold | None


class ShadowAdmissions:
    """One for each deployment whose rollout begins in shadow; a rollout that follows begins with
    empty accounts."""

    def __init__(self, clock: MonotonicClock) -> None:
        self._clock = clock
        self._by_deployment: dict[str, tuple[int, DeploymentAdmission]] = {}

    def keep(self, snapshot: Snapshot) -> None:
        """Forget those that decide nothing any more."""
        numbers = {each.deployment: each.number for each in snapshot.rollouts if each.is_shadow}
        self._by_deployment = {
            name: known
            for name, known in self._by_deployment.items()
            if numbers.get(name) == known[0]
        }

    def decide(
        self,
        rollout: RolloutTerms,
        policy: CompiledPolicy,
        beside: DeploymentAdmission,
        arrival: Arrival,
        num_replicas: int,
        overrides: Iterable[Override] = (),
        *,
        is_counted: bool = True,
    ) -> Shadowed:
        """What `policy` would have decided. `beside`: the admission that is enforced. Of one that
        is not counted nobody knows how much it would hold: then it holds nothing."""
        own = self._find(rollout, beside)
        considered = own.consider(
            policy, arrival, num_replicas, overrides=overrides, only_looks=True
        )
        if isinstance(considered.decision, Rejected):
            own.refuse(arrival)
            return Shadowed(considered=considered, hold=None)
        hold = own.hold(arrival, considered) if is_counted else None
        return Shadowed(considered=considered, hold=hold)

    def _find(self, rollout: RolloutTerms, beside: DeploymentAdmission) -> DeploymentAdmission:
        number, known = self._by_deployment.get(rollout.deployment, (None, None))
        if known is None or number != rollout.number or known.queue is not beside.queue:
            known = DeploymentAdmission(rollout.deployment, beside.queue, self._clock)
            self._by_deployment[rollout.deployment] = rollout.number, known
        return known
