"""What one request class was promised."""

from dataclasses import dataclass
from enum import StrEnum

from dataplane.latency import Boundary


class ObjectiveSignal(StrEnum):
    """What an objective can be set on."""

    TTFT = "ttft"
    TPOT = "tpot"
    MAX_ITL = "max_itl"
    CHUNK_GAP = "chunk_gap"
    E2E = "e2e"
    AVAILABILITY = "availability"


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """One promise: `signal` stays within `at_most_seconds` for `target` of the requests."""

    signal: ObjectiveSignal
    target: float
    """Share of requests, 0 to 1."""
    at_most_seconds: float | None = None
    """None for availability, which has no threshold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractTerms:
    """What one request class was promised, by one revision of a contract."""

    boundary: Boundary
    objectives: tuple[Objective, ...]
    together: tuple[ObjectiveSignal, ...] = ()
    """Signals that must hold jointly; empty: all of them."""
    together_target: float | None = None
