"""Who may send requests to the engines of a deployment, beside our gateways."""

from collections.abc import Iterable
from enum import StrEnum

from controlplane.operator.observed import ObservedReplica


class Callers(StrEnum):
    """Of one deployment."""

    GATEWAYS = "gateways"
    """They alone know where its replicas listen: we started them."""
    ANYBODY = "anybody"
    """Somebody else's servers, which we send requests to as others may."""
    APART = "apart"
    """Some replicas are only observed, and our gateways call the rest: what engines hold in all is
    not what gateways wait for."""
    OTHERS = "others"
    """All are only observed: no request of ours reaches them."""


def callers_of(replicas: Iterable[ObservedReplica]) -> Callers:
    """By what is least known: one replica that others may call is enough."""
    found = list(replicas)
    num_apart = sum(each.is_observed_only for each in found)
    if num_apart:
        return Callers.OTHERS if num_apart == len(found) else Callers.APART
    return Callers.ANYBODY if any(each.is_attached for each in found) else Callers.GATEWAYS
