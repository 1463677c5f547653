"""The bounds of a gateway that matter in a simulation."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayBounds:
    """As `dataplane.gateway.settings` has them."""

    unserved_seconds: float = 5.0
    release_seconds: float = 30.0
    write_seconds: float = 60.0
    surplus_slots: int = 2
    max_choices: int = 16
    """Answers to one prompt."""
    expire_seconds: float = 0.05
    """How often deadlines are looked at."""
