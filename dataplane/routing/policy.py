"""What a routing policy is: it picks one of the replicas that could take a request now.

A policy is made once for a deployment, by the hook `pilothouse_create_router`, and asked on the
event loop: it must not wait, and keeps what it learns in itself. It is never asked with nobody to
choose from, and whoever it is shown could be taken: slots, ejected replicas, affinity and retries
are not its concern.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from dataplane.routing.candidate import Candidate
from dataplane.routing.request import RoutedRequest


class Pick(NamedTuple):
    """What a policy came to. Where no reason was asked for, the replica is enough."""

    chosen: Candidate
    scores: Sequence[tuple[Candidate, float]] = ()
    """Of those that it compared; less is better."""
    reason: str = ""
    degraded: tuple[str, ...] = ()
    """What it did without, in words."""


class RoutingPolicy(Protocol):
    """Made with its settings and a random generator of its own, see `dataplane.hooks`."""

    name: str
    """What decisions call it."""
    wants_prefixes: bool
    """Show it `RoutedRequest.num_cached_tokens`: prompts are hashed and remembered for it."""

    def choose(
        self, request: RoutedRequest, candidates: Sequence[Candidate], wants_reason: bool
    ) -> Pick:
        """One of `candidates`, which are never empty, in no order. They may be read until this
        returns. An exception costs the policy this one choice: two choices are drawn instead,
        and the decision says so."""
        ...
