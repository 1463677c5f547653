"""Which replica takes a request: candidates, policies, and the router around a policy."""

from dataplane.routing.candidate import Candidate, limit_slots

__all__ = ["Candidate", "limit_slots"]
