"""What was decided about a request, on what, and how old was what it knew: kept in its record.

Admission decides once, routing once for each attempt. Both are written down at the moment of the
decision, since what they read is gone a moment later. A router may have looked at a thousand
replicas and a policy at any number of signals: what is kept is bounded, the best few and a count,
so that a decision costs no more to keep than the rest of a record.
"""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

MAX_CANDIDATES = 5
"""Replicas of one routing decision that are kept, the chosen one among them."""
MAX_SIGNALS = 12
"""Of one admission decision."""
MAX_CANDIDATE_SIGNALS = 6
"""Of one replica in a routing decision."""
MAX_TEXT = 240
"""Characters of one reason."""


class Signal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One number that a decision read. What is left out on the wire has its default."""

    name: str
    """In words of the design, such as queue_age."""
    value: float | None
    """None: nobody could tell it."""
    unit: str = ""
    """s, tokens, requests, ...; empty: a plain ratio."""
    source: str = "gateway"
    """Who told it: gateway, policy, override, or the id of a replica."""
    age_seconds: float | None = 0.0
    """How old it was when it was read; 0: the gateway's own count of that moment; None: it was
    never told."""
    limit: float | None = None
    """What it was held against; None: it was only looked at."""
    is_used: bool = True
    """False: it was too old, or never told, and the decision was made without it."""
    is_decisive: bool = False
    """The outcome is owed to it: with the value on the other side of `limit` it had been another
    one."""


class AppliedOverride(msgspec.Struct, frozen=True, kw_only=True):
    """A break-glass override that changed what a decision came to."""

    override_id: str
    effect: str
    """What it changed for this request, in words."""


class AdmissionOutcome(StrEnum):
    """What a request was told."""

    ADMITTED = "admitted"
    DEGRADED = "degraded"
    """Admitted, with less than was asked for."""
    REJECTED = "rejected"


class AdmissionDecision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether a request might wait, and why. What is left out on the wire has its default."""

    outcome: AdmissionOutcome
    snapshot_version: int
    policy_revision: str
    request_class: str | None = None
    kind: str | None = None
    """Why it was rejected, as the error's code says it; None unless it was."""
    reason: str = ""
    signals: tuple[Signal, ...] = ()
    """At most MAX_SIGNALS, the decisive ones first: see `keep_signals`."""
    degraded: tuple[str, ...] = ()
    """What was taken from it, each in words, such as max_tokens=256."""
    asked_output_tokens: int | None = None
    """Before it was degraded; None: it was not."""
    fallback: str | None = None
    """The deployment that serves it in the place of the one it asked for."""
    retry_after_seconds: int | None = None
    overrides: tuple[AppliedOverride, ...] = ()


class ShadowDecision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a policy came to that only looked on, while another one was enforced."""

    rollout: int
    """Number of the rollout whose candidate it is."""
    decision: AdmissionDecision | None = None
    """None: it came to nothing that can be compared."""
    why_none: str = ""

    def differs_from(self, enforced: AdmissionDecision) -> bool | None:
        """Whether the request had been treated otherwise; None: nobody knows."""
        own = self.decision
        if own is None:
            return None
        return (own.outcome, own.request_class, own.degraded, own.fallback) != (
            enforced.outcome,
            enforced.request_class,
            enforced.degraded,
            enforced.fallback,
        )


class RoutingCandidate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One replica that a router looked at."""

    replica_id: str
    score: float | None = None
    """Less is better; None: it was not scored."""
    signals: tuple[Signal, ...] = ()
    """At most MAX_CANDIDATE_SIGNALS."""
    why_not: str | None = None
    """Why it could not be taken at all; None: it could have been."""


class RoutingDecision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where one attempt went, and why. What is left out on the wire has its default."""

    attempt: int
    policy: str
    """The routing policy, such as two_choices."""
    chosen: str
    """Replica id."""
    reason: str = ""
    snapshot_version: int | None = None
    """What was enforced when it was chosen, which may be newer than at the admission."""
    candidates: tuple[RoutingCandidate, ...] = ()
    """At most MAX_CANDIDATES, best first, the chosen one always among them: see `keep_best`."""
    num_candidates: int = 0
    """Replicas that it chose among, kept here or not."""
    degraded: tuple[str, ...] = ()
    """What it did without, in words: a policy that lacked its signals chose by another rule."""
    overrides: tuple[AppliedOverride, ...] = ()


def keep_best(candidates: Iterable[RoutingCandidate], chosen: str) -> tuple[RoutingCandidate, ...]:
    """Of any number, the best MAX_CANDIDATES: the chosen one, then who could have been taken by
    score, then who could not, the same for the same candidates in any order."""
    ranked = sorted(candidates, key=lambda each: _rank(each, chosen))
    return tuple(ranked[:MAX_CANDIDATES])


def keep_signals(signals: Iterable[Signal], limit: int = MAX_SIGNALS) -> tuple[Signal, ...]:
    """Of any number, `limit`: the decisive ones, then those with a limit, then the others, each
    in the order given."""
    ranked = sorted(signals, key=lambda each: (not each.is_decisive, each.limit is None))
    return tuple(ranked[:limit])


def clip(text: str) -> str:
    """A reason within its bound."""
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def _rank(candidate: RoutingCandidate, chosen: str) -> tuple[bool, bool, bool, float, str]:
    score = candidate.score
    return (
        candidate.replica_id != chosen,
        candidate.why_not is not None,
        score is None,
        0.0 if score is None else score,
        candidate.replica_id,
    )
