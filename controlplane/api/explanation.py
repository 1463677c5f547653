"""Why a request went as it did: who decided, on what, how old that was, what would have changed it.

Pure: from the decisions that its record keeps, for a rejected request as for a served one. What a
decision did without is said as such, never passed over.
"""

from dataclasses import dataclass, field, replace

from controlplane.api.quantities import amount
from dataplane.decision import (
    AdmissionDecision,
    AdmissionOutcome,
    RoutingCandidate,
    RoutingDecision,
    Signal,
)
from dataplane.record import RequestRecord

_FRESH_SECONDS = 0.0005
_NOT_TOLD = "Not told here: it would count other tenants' requests."
_OTHERWISE = {
    "draining": "another gateway, or this one once a new process has its place",
    "no_replica": "a replica of the deployment that is ready",
    "no_class": "a class of the policy that takes such a request",
    "shed": "room for the classes that it gives way to",
    "retry_budget": "fewer retries among what arrives",
    "deadline_unreachable": "fewer requests before it, or a later deadline",
}
"""What would have let a request in, by the kind of its rejection, where no one number decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedSignal:
    """One number that a decision read."""

    name: str
    """In words."""
    value: float | None
    """None: nobody could tell it."""
    unit: str
    source: str
    """Who told it."""
    age_seconds: float | None
    """0: counted at that moment; None: it was never told."""
    limit: float | None
    """What it was held against."""
    is_used: bool
    """False: the decision was made without it."""
    is_decisive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedOverride:
    """A break-glass override that touched the request."""

    override_id: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedAdmission:
    """Whether it might wait, and why."""

    outcome: str
    """admitted, degraded or rejected."""
    kind: str | None
    """Of a rejection, as the error's code says it."""
    text: str
    """Who decided what, and why, as a sentence."""
    knew: str
    """How old was what the decision knew, as a sentence."""
    otherwise: str
    """What would have changed it, as a sentence."""
    signals: list[ExplainedSignal]
    overrides: list[ExplainedOverride] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedCandidate:
    """One replica that the router looked at."""

    replica_id: str
    is_chosen: bool
    score: float | None
    """Less is better; None: it was not scored."""
    why_not: str | None
    """Why it could not be taken at all."""
    signals: list[ExplainedSignal]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedRouting:
    """Where one attempt went, and why."""

    attempt: int
    """From 0."""
    chosen: str
    text: str
    knew: str
    otherwise: str
    candidates: list[ExplainedCandidate]
    """The best few, the chosen one first."""
    num_left_out: int
    """Of those that it chose among, how many are not listed."""
    degraded: list[str]
    """What it did without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedShadow:
    """What a policy that only looked on came to."""

    rollout: int
    """Whose candidate it is."""
    differs: bool | None
    """The request had been treated otherwise; None: nobody knows."""
    text: str
    """As a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Every decision about one request, in order."""

    admission: ExplainedAdmission | None
    """None: nobody was asked; see `why_none`."""
    routing: list[ExplainedRouting]
    why_none: str | None = None
    shadow: ExplainedShadow | None = None
    """None: no policy looked on, or whoever asks sees one tenant alone."""


def explain_record(record: RequestRecord) -> Explanation:
    """From the full record."""
    decision = record.decision
    return Explanation(
        admission=None if decision is None else explain_admission(decision, record.gateway_id),
        routing=[explain_routing(each) for each in record.routing],
        why_none=_why_none(record) if decision is None else None,
        shadow=_explain_shadow(record),
    )


def without_others(explanation: Explanation) -> Explanation:
    """For who sees one tenant alone: no number that counts what others do, and no replica but the
    chosen ones."""
    admission = explanation.admission
    return replace(
        explanation,
        shadow=None,
        admission=None
        if admission is None
        else replace(admission, otherwise=_NOT_TOLD, knew=_NOT_TOLD, signals=[]),
        routing=[
            replace(
                each,
                text=f"Sent to {each.chosen}.",
                knew=_NOT_TOLD,
                otherwise=_NOT_TOLD,
                candidates=[],
                num_left_out=0,
                degraded=[],
            )
            for each in explanation.routing
        ],
    )


def explain_admission(decision: AdmissionDecision, gateway_id: str) -> ExplainedAdmission:
    """One admission decision in words."""
    return ExplainedAdmission(
        outcome=decision.outcome.value,
        kind=decision.kind,
        text=_admission_text(decision, gateway_id),
        knew=_knew(decision.signals),
        otherwise=_admission_otherwise(decision),
        signals=[_signal(each) for each in decision.signals],
        overrides=[
            ExplainedOverride(override_id=each.override_id, effect=each.effect)
            for each in decision.overrides
        ],
    )


def explain_routing(decision: RoutingDecision) -> ExplainedRouting:
    """One routing decision in words."""
    taken = [each for each in decision.candidates if each.why_not is None]
    reason = f": {decision.reason}" if decision.reason else ""
    return ExplainedRouting(
        attempt=decision.attempt,
        chosen=decision.chosen,
        text=f"Routing policy {decision.policy} chose {decision.chosen} of "
        f"{decision.num_candidates} that could be taken{reason}.",
        knew=_knew(tuple(signal for each in taken for signal in each.signals)),
        otherwise=_routing_otherwise(decision.chosen, taken),
        candidates=[_candidate(each, decision.chosen) for each in decision.candidates],
        num_left_out=max(0, decision.num_candidates - len(taken)),
        degraded=list(decision.degraded),
    )


def _why_none(record: RequestRecord) -> str:
    if record.disposition.value == "invalid":
        return "It was refused before any policy was asked: the call itself could not be served."
    if record.disposition.value == "lost":
        return "Its gateway ended first, and what it had decided went with it."
    return "Its gateway is of a version that did not keep decisions."


def _explain_shadow(record: RequestRecord) -> ExplainedShadow | None:
    shadow, enforced = record.shadow, record.decision
    if shadow is None or enforced is None:
        return None
    own, differs = shadow.decision, shadow.differs_from(enforced)
    if own is None:
        text = f"What the policy in shadow had come to is not known: {shadow.why_none}."
    else:
        what = "otherwise" if differs else "alike"
        text = f"It had been treated {what}. {_admission_text(own, record.gateway_id)}"
    return ExplainedShadow(rollout=shadow.rollout, differs=differs, text=text)


def _admission_text(decision: AdmissionDecision, gateway_id: str) -> str:
    of = "" if decision.request_class is None else f" as class {decision.request_class}"
    what = {
        AdmissionOutcome.ADMITTED: "let it in",
        AdmissionOutcome.DEGRADED: f"let it in with {' and '.join(decision.degraded) or 'less'}",
        AdmissionOutcome.REJECTED: f"refused it ({decision.kind})",
    }[decision.outcome]
    text = (
        f"Policy {decision.policy_revision}, in config version {decision.snapshot_version} at "
        f"{gateway_id}, {what}{of}: {decision.reason or 'no reason was kept'}."
    )
    if decision.fallback is not None:
        text += f" Deployment {decision.fallback} stands in for the one that was asked for."
    if decision.asked_output_tokens is not None:
        text += f" Asked for were {decision.asked_output_tokens} output tokens at most."
    if decision.retry_after_seconds is not None:
        text += f" It was told to come again in {decision.retry_after_seconds} s."
    return text


def _admission_otherwise(decision: AdmissionDecision) -> str:
    decisive = [each for each in decision.signals if each.is_decisive and each.limit is not None]
    if decisive:
        bounds = " and ".join(f"{_named(each)} below {_limit(each)}" for each in decisive)
        return f"With {bounds} it had been let in."
    if decision.outcome is AdmissionOutcome.REJECTED:
        what = _OTHERWISE.get(decision.kind or "")
        return f"It had taken {what}." if what else "What would have let it in is not known."
    nearest = _nearest_bound(decision.signals)
    if nearest is None:
        return "No bound that it was held against was anywhere near."
    if decision.outcome is AdmissionOutcome.DEGRADED:
        return f"With {_named(nearest)} below {_limit(nearest)} it had been served in full."
    return f"The nearest bound was {_named(nearest)}: {_value(nearest)} of {_limit(nearest)}."


def _nearest_bound(signals: tuple[Signal, ...]) -> Signal | None:
    """The signal that took up most of what it was held against."""
    bounded = [each for each in signals if each.value is not None and each.limit and each.is_used]
    return max(bounded, key=lambda each: (each.value or 0) / (each.limit or 1), default=None)


def _routing_otherwise(chosen: str, taken: list[RoutingCandidate]) -> str:
    scored = [each for each in taken if each.score is not None]
    mine = next((each for each in scored if each.replica_id == chosen), None)
    others = [each for each in scored if each.replica_id != chosen]
    if len(taken) < 2 and not others:
        return "There was no other to take."
    if mine is None or not others:
        return "The others were not scored: what would have changed it is not known."
    second = min(others, key=lambda each: (each.score or 0.0, each.replica_id))
    return (
        f"Next was {second.replica_id}: its score was {second.score:.3g}, and less than "
        f"{mine.score:.3g} had won."
    )


def _knew(signals: tuple[Signal, ...]) -> str:
    if not signals:
        return "No number was read for it."
    unused = [each for each in signals if not each.is_used]
    told = [each for each in signals if each.is_used and each.age_seconds is not None]
    oldest = max(told, key=lambda each: each.age_seconds or 0.0, default=None)
    if oldest is None:
        text = "Nothing that it could have read was told in time."
    elif (oldest.age_seconds or 0.0) < _FRESH_SECONDS:
        text = "All that it used was counted by the gateway itself, at that moment."
    else:
        text = (
            f"The oldest that it used was {amount(oldest.age_seconds, 's')} old: {_named(oldest)}, "
            f"told by {oldest.source}."
        )
    return text + _did_without(unused)


def _did_without(unused: list[Signal]) -> str:
    if not unused:
        return ""
    names = sorted({f"{_named(each)} ({_why_unused(each)})" for each in unused})
    return f" It did without {', '.join(names)}."


def _why_unused(signal: Signal) -> str:
    if signal.age_seconds is None or signal.value is None:
        return f"{signal.source} never told it"
    return f"{amount(signal.age_seconds, 's')} old, told by {signal.source}"


def _named(signal: Signal) -> str:
    return signal.name.replace("_", " ")


def _value(signal: Signal) -> str:
    return amount(signal.value, signal.unit)


def _limit(signal: Signal) -> str:
    return amount(signal.limit, signal.unit)


def _signal(signal: Signal) -> ExplainedSignal:
    return ExplainedSignal(
        name=_named(signal),
        value=signal.value,
        unit=signal.unit,
        source=signal.source,
        age_seconds=signal.age_seconds,
        limit=signal.limit,
        is_used=signal.is_used,
        is_decisive=signal.is_decisive,
    )


def _candidate(candidate: RoutingCandidate, chosen: str) -> ExplainedCandidate:
    return ExplainedCandidate(
        replica_id=candidate.replica_id,
        is_chosen=candidate.replica_id == chosen,
        score=candidate.score,
        why_not=candidate.why_not,
        signals=[_signal(each) for each in candidate.signals],
    )
