"""Faults of those who ask."""

from typing import Literal

from pydantic import Field

from controlplane.specs.faults.fault import CallFaultFields, Part, Tokens
from controlplane.specs.quantity import Duration
from dataplane.simulation.faults.clients import RetryStorm, SlowClients


class RetryStormSpec(CallFaultFields):
    """Clients leave when nothing comes, and try again and again without a growing pause."""

    makes = RetryStorm
    fault: Literal["retry_storm"]
    intensity: Part = 1.0
    """The share of clients that do."""
    patience: Duration | None = 10.0
    """How long they wait for the first token; None: as long as they did."""
    max_retries: int = Field(default=8, ge=0, le=1000)
    """How often they try again."""
    backoff: Duration = 0.1
    """The pause between two tries."""


class SlowClientsSpec(CallFaultFields):
    """Clients read their answers slowly, or stop."""

    makes = SlowClients
    fault: Literal["slow_clients"]
    intensity: Part = 1.0
    """The share of clients that do."""
    tokens_per_second: float = Field(default=4.0, gt=0, le=1_000_000)
    """How fast they read."""
    stops_after: Tokens | None = None
    """Tokens after which they read nothing more, and stay connected; None: they read on."""
    buffered_tokens: Tokens = 64
    """What the connection holds that was not read."""
