"""What the routing terms of one policy revision came to."""

from dataclasses import dataclass

from dataplane.policy import RoutingTerms
from dataplane.routing.ejection import EjectionTerms
from dataplane.routing.policy import RoutingPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """A policy lives as long as its terms do."""

    terms: RoutingTerms
    policy: RoutingPolicy
    ejection: EjectionTerms
    problem: str | None = None
    """Why `policy` stands in for the one that the terms ask for; None: it is that one."""
