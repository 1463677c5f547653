"""Whether one request kept its contract. Pure arithmetic over its latencies."""

from dataclasses import dataclass
from enum import StrEnum

from dataplane.contract_terms import ContractTerms, Objective, ObjectiveSignal
from dataplane.latency import Boundary, BoundaryLatencies, Latencies
from dataplane.outcome import Outcome


class Verdict(StrEnum):
    """Of one objective for one request."""

    GOOD = "good"
    BAD = "bad"
    NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveResult:
    """How one objective went for one request."""

    signal: ObjectiveSignal
    verdict: Verdict
    measured_seconds: float | None
    at_most_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """How one request stands to the contract revision in force when it arrived."""

    boundary: Boundary
    results: tuple[ObjectiveResult, ...]
    in_contract: bool | None
    """Met every objective that applies, together; None when none applies."""
    together: Verdict
    """The joint objective over the signals that the contract names for it."""


def judge(
    latencies: Latencies, outcome: Outcome, terms: ContractTerms, elapsed: float
) -> Judgement:
    """Judge one ended request.

    `elapsed` is how long, in seconds, the request was alive: a client that left before
    its first token, or before its last, spends budget only if it had already waited past the
    threshold.
    A request the service failed is bad on every objective it was promised; one that the
    caller got wrong is judged on none.
    """
    at_boundary = latencies.at(terms.boundary)
    results = tuple(
        _judge_objective(objective, terms.boundary, at_boundary, outcome, elapsed)
        for objective in terms.objectives
    )
    applying = [result for result in results if result.verdict is not Verdict.NOT_APPLICABLE]
    in_contract = all(result.verdict is Verdict.GOOD for result in applying) if applying else None
    joint = [result for result in applying if not terms.together or result.signal in terms.together]
    if not joint:
        together = Verdict.NOT_APPLICABLE
    elif all(result.verdict is Verdict.GOOD for result in joint):
        together = Verdict.GOOD
    else:
        together = Verdict.BAD
    return Judgement(
        boundary=terms.boundary, results=results, in_contract=in_contract, together=together
    )


def _judge_objective(
    objective: Objective,
    boundary: Boundary,
    at_boundary: BoundaryLatencies,
    outcome: Outcome,
    elapsed: float,
) -> ObjectiveResult:
    measured = _measured(objective.signal, boundary, at_boundary)
    return ObjectiveResult(
        signal=objective.signal,
        verdict=_verdict(objective, measured, outcome, elapsed),
        measured_seconds=measured,
        at_most_seconds=objective.at_most_seconds,
    )


def _verdict(
    objective: Objective, measured: float | None, outcome: Outcome, elapsed: float
) -> Verdict:
    if outcome is Outcome.CALLER_ERROR:
        return Verdict.NOT_APPLICABLE
    if outcome is Outcome.SERVICE_FAILED:
        return Verdict.BAD
    if objective.signal is ObjectiveSignal.AVAILABILITY:
        return Verdict.GOOD if outcome is Outcome.ANSWERED else Verdict.NOT_APPLICABLE
    limit = objective.at_most_seconds
    if limit is None:
        raise ValueError(f"objective {objective.signal} has no at_most: nothing to compare with")
    if outcome is Outcome.CLIENT_LEFT:
        return _verdict_of_client_that_left(objective.signal, measured, limit, elapsed)
    if measured is None:
        return Verdict.NOT_APPLICABLE
    return Verdict.GOOD if measured <= limit else Verdict.BAD


def _verdict_of_client_that_left(
    signal: ObjectiveSignal, measured: float | None, limit: float, elapsed: float
) -> Verdict:
    if signal is ObjectiveSignal.TTFT and measured is not None:
        return Verdict.GOOD if measured <= limit else Verdict.BAD
    if signal in (ObjectiveSignal.TTFT, ObjectiveSignal.E2E) and elapsed > limit:
        return Verdict.BAD
    return Verdict.NOT_APPLICABLE


def _measured(
    signal: ObjectiveSignal, boundary: Boundary, latencies: BoundaryLatencies
) -> float | None:
    match signal:
        case ObjectiveSignal.TTFT:
            return latencies.ttft
        case ObjectiveSignal.TPOT:
            return latencies.tpot
        case ObjectiveSignal.MAX_ITL:  # past the engine only chunks are seen
            return latencies.max_gap if boundary is Boundary.ENGINE else None
        case ObjectiveSignal.CHUNK_GAP:
            return latencies.max_gap if boundary is not Boundary.ENGINE else None
        case ObjectiveSignal.E2E:
            return latencies.e2e
        case ObjectiveSignal.AVAILABILITY:
            return None
