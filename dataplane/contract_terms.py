"""What one request class was promised."""

from dataclasses import dataclass
from enum import StrEnum

from dataplane.latency import Boundary


class ObjectiveSignal(StrEnum):
    """What an objective can be set on."""

    TTFT = "ttft"
    """Arrival until the first token."""
    FIRST_ANSWER = "first_answer"
    """Arrival until the first token of the answer, after what a reasoning model thinks aloud. The
    same as ttft where nothing was set apart as reasoning. What was all reasoning has none, and
    missed it where it ended after it was due."""
    TPOT = "tpot"
    """Time per token after the first one; an answer of one token has none."""
    MAX_ITL = "max_itl"
    """The longest wait between two tokens; seen at the engine alone."""
    CHUNK_GAP = "chunk_gap"
    """The longest wait between two chunks; at the server and the client."""
    E2E = "e2e"
    """Arrival until the whole answer."""
    ACCEPTANCE = "acceptance"
    """The request was let in. Refused for want of room, shed, expired in the queue or answered 503
    before its first token: it was not."""
    AVAILABILITY = "availability"
    """The request was answered to its end."""


WITHOUT_BOUND = frozenset({ObjectiveSignal.ACCEPTANCE, ObjectiveSignal.AVAILABILITY})
"""They are kept or not: there is no threshold."""
_ONLY_AT = {
    ObjectiveSignal.MAX_ITL: frozenset({Boundary.ENGINE}),
    ObjectiveSignal.CHUNK_GAP: frozenset({Boundary.SERVER, Boundary.CLIENT}),
}


def is_measured_at(signal: ObjectiveSignal, boundary: Boundary) -> bool:
    """Whether anything of `signal` is seen there: tokens at the engine, past it only chunks."""
    return boundary in _ONLY_AT.get(signal, frozenset(Boundary))


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """One promise: `signal` stays within `at_most_seconds` for `target` of the requests."""

    signal: ObjectiveSignal
    target: float
    """Share of requests, 0 to 1."""
    at_most_seconds: float | None = None
    """None for signals that have no threshold (WITHOUT_BOUND)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractTerms:
    """What one request class was promised, by one revision of a contract."""

    boundary: Boundary
    objectives: tuple[Objective, ...]
    together: tuple[ObjectiveSignal, ...] = ()
    """Signals that must hold jointly; empty: all of them."""
    together_target: float | None = None
