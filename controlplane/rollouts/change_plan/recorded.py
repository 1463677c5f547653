"""Requests as their compact rows tell of them: what recorded traffic is replayed from."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest:
    """One that came to a decision of admission. Seconds are since its arrival."""

    gateway_id: str
    arrived_at_unix_ns: int
    tenant: str
    request_class: str
    """As it was decided then."""
    policy_revision: str | None
    model_name: str | None
    """Of the Model that it was served by."""
    num_prompt_tokens: int | None
    num_output_tokens: int | None
    scheduled: float | None
    """When engine work began; None: it never did."""
    ended: float | None
    """When it held nothing any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTraffic:
    """Of one deployment, within a time."""

    requests: Sequence[RecordedRequest]
    """By arrival."""
    num_recorded: int
    """All that were recorded; more than are replayed where they are too many."""
    since_unix_ns: int
    until_unix_ns: int
