"""Who has how much of what there is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Who has how much of one thing."""

    says: str
    name: str
    """Who has most."""
    share: float
    """Of all, 0 to 1."""
    num_callers: int
