"""Promises that only clients can say were kept: latencies at the boundary `client`.

A gateway judges a request when it ends, before its client has reported, and so counts of these
promises none but those that it refused or failed. The control plane adds what is reported later,
to its own counts alone: by a gateway's counters every request would seem to have missed them.
"""

from collections.abc import Sequence

from controlplane.slo.promised import Promise
from controlplane.specs.contract import ClassContractSpec, SLOContractSpec
from dataplane import names
from dataplane.contract_terms import WITHOUT_BOUND, is_measured_at
from dataplane.latency import Boundary

NO_RULES = (
    "no rules for Prometheus: clients' reports reach the control plane alone, which counts and "
    "alerts by them"
)


def client_reported(spec: SLOContractSpec) -> frozenset[tuple[str, str]]:
    """Class and objective of each; none at another boundary."""
    if spec.boundary is not Boundary.CLIENT:
        return frozenset()
    return frozenset(
        (request_class, objective)
        for request_class, promised in spec.classes.items()
        for objective in _of_class(promised)
    )


def without_client_reported(
    promises: Sequence[Promise], spec: SLOContractSpec
) -> tuple[list[Promise], tuple[str, ...]]:
    """Those that gateways count, and a sentence for each of the others."""
    reported = client_reported(spec)
    kept = [each for each in promises if (each.request_class, each.objective) not in reported]
    notes = tuple(
        f"{each.deployment} {each.name}: {NO_RULES}" for each in promises if each not in kept
    )
    return kept, notes


def _of_class(promised: ClassContractSpec) -> list[str]:
    found = [
        objective.signal.value
        for objective in promised.objectives
        if objective.signal not in WITHOUT_BOUND
        and is_measured_at(objective.signal, Boundary.CLIENT)
    ]
    if promised.together is not None and not WITHOUT_BOUND.issuperset(promised.together.of):
        found.append(names.TOGETHER)
    return found
