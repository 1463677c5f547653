"""How patient the keeping of incidents is, whoever opens them: diagnosis or an alert."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentSettings:
    """Of one control plane."""

    min_looks: int = 2
    """In a row, until what is only likely opens one."""
    joins_within_seconds: float = 600.0
    """Another mechanism is part of the same trouble if it is found so soon after the opening."""
    seen_within_seconds: float = 40.0
    """And that was seen so lately: two looks. What is no longer there shows in no other way."""
    resolves_after_seconds: float = 60.0
    reopens_within_seconds: float = 1800.0
