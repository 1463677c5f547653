"""Which replica takes a request: candidates, policies, and the router around a policy."""

from dataplane.routing.candidate import Candidate, limit_slots
from dataplane.routing.least_outstanding import choose_replica

__all__ = ["Candidate", "choose_replica", "limit_slots"]
