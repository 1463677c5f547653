"""Whether one request kept its contract. Pure arithmetic over its latencies."""

from dataclasses import dataclass
from enum import StrEnum

from dataplane.contract_terms import (
    WITHOUT_BOUND,
    ContractTerms,
    Objective,
    ObjectiveSignal,
    is_measured_at,
)
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
    """Judge one ended request by the terms that were in force when it arrived.

    `elapsed` is how long, in seconds, the request was alive. Nothing is missing from latency: a
    request the service failed or refused is bad on every latency it was promised, though none was
    measured, and one that it failed after it was let in has been accepted. What the caller got
    wrong is judged on nothing. What was all reasoning, and ended only after its first answer was
    due, missed it: who stays to the end of it waits no less than who leaves.

    A client that left spends nothing unless it had missed what it was promised first: its first
    token; where none is promised, its first answer; where neither is, its whole answer. Then it
    spends the budget of each of the three that was due, that of availability if nothing had come,
    and that of pace never, since it saw but a part.
    """
    case = _Case(latencies, outcome, terms, elapsed)
    results = tuple(case.judge(objective) for objective in terms.objectives)
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


@dataclass(frozen=True, slots=True)
class _Case:
    """One request before its contract."""

    latencies: Latencies
    outcome: Outcome
    terms: ContractTerms
    elapsed: float

    def judge(self, objective: Objective) -> ObjectiveResult:
        measured = _measured(objective.signal, self.latencies.at(self.terms.boundary))
        is_measurable = is_measured_at(objective.signal, self.terms.boundary)
        measured = measured if is_measurable else None
        return ObjectiveResult(
            signal=objective.signal,
            verdict=self._verdict(objective, measured) if is_measurable else Verdict.NOT_APPLICABLE,
            measured_seconds=measured,
            at_most_seconds=objective.at_most_seconds,
        )

    def _verdict(self, objective: Objective, measured: float | None) -> Verdict:
        match self.outcome:
            case Outcome.CALLER_ERROR:
                return Verdict.NOT_APPLICABLE
            case Outcome.CLIENT_LEFT:
                return self._of_client_that_left(objective, measured)
            case Outcome.REFUSED:
                return Verdict.BAD
            case Outcome.SERVICE_FAILED:
                is_acceptance = objective.signal is ObjectiveSignal.ACCEPTANCE
                return Verdict.GOOD if is_acceptance else Verdict.BAD
            case Outcome.ANSWERED:
                return self._of_answered(objective, measured)

    def _of_answered(self, objective: Objective, measured: float | None) -> Verdict:
        if objective.signal in WITHOUT_BOUND:
            return Verdict.GOOD
        limit = _limit(objective)
        if measured is not None:
            return _within(measured, limit)
        is_late = objective.signal is ObjectiveSignal.FIRST_ANSWER and self._only_thought_for(limit)
        return Verdict.BAD if is_late else Verdict.NOT_APPLICABLE

    def _only_thought_for(self, limit: float) -> bool:
        """It was seen whole, took longer than that, and held no answer; a client that tells of none
        may not tell the two apart."""
        whole = self.latencies.at(self.terms.boundary).e2e
        return self.terms.boundary is not Boundary.CLIENT and whole is not None and whole > limit

    def _of_client_that_left(self, objective: Objective, measured: float | None) -> Verdict:
        verdict = self._when_it_left(objective, measured)
        is_its_own = verdict is Verdict.BAD and not self._had_missed_its_first
        return Verdict.NOT_APPLICABLE if is_its_own else verdict

    @property
    def _had_missed_its_first(self) -> bool:
        """What was promised first had been missed when the client left."""
        promised = {objective.signal: objective for objective in self.terms.objectives}
        first = next((promised[signal] for signal in _IN_ORDER if signal in promised), None)
        if first is None:
            return False
        measured = _measured(first.signal, self.latencies.at(self.terms.boundary))
        return self._when_it_left(first, measured) is Verdict.BAD

    def _when_it_left(self, objective: Objective, measured: float | None) -> Verdict:
        """How the objective stood at that moment, whoever made the client leave."""
        match objective.signal:
            case ObjectiveSignal.ACCEPTANCE:
                return Verdict.GOOD if self._has_begun else Verdict.NOT_APPLICABLE
            case ObjectiveSignal.AVAILABILITY:
                return Verdict.BAD if self._waited_in_vain else Verdict.NOT_APPLICABLE
            case ObjectiveSignal.TTFT | ObjectiveSignal.FIRST_ANSWER if measured is not None:
                return _within(measured, _limit(objective))
            case ObjectiveSignal.TTFT | ObjectiveSignal.FIRST_ANSWER if self._is_unreported:
                return Verdict.NOT_APPLICABLE
            case ObjectiveSignal.TTFT | ObjectiveSignal.FIRST_ANSWER | ObjectiveSignal.E2E:
                is_due = self.elapsed > _limit(objective)
                return Verdict.BAD if is_due else Verdict.NOT_APPLICABLE
            case _:
                return Verdict.NOT_APPLICABLE

    @property
    def _has_begun(self) -> bool:
        """Some of an answer was made, as far as anybody saw."""
        return any(self.latencies.at(boundary).ttft is not None for boundary in Boundary)

    @property
    def _has_passed(self) -> bool:
        """Some of it passed the boundary; of the client's, it was sent there."""
        boundary = self.terms.boundary
        seen_at = Boundary.SERVER if boundary is Boundary.CLIENT else boundary
        return self.latencies.at(seen_at).ttft is not None

    @property
    def _is_unreported(self) -> bool:
        """Some of it was sent, and only the client could say when it came."""
        return self.terms.boundary is Boundary.CLIENT and self._has_passed

    @property
    def _waited_in_vain(self) -> bool:
        """Nothing came, and the first of it was due."""
        return not self._has_passed and any(
            self.elapsed > _limit(objective)
            for objective in self.terms.objectives
            if objective.signal in _FIRST
        )


_FIRST = frozenset({ObjectiveSignal.TTFT, ObjectiveSignal.FIRST_ANSWER})
_IN_ORDER = (ObjectiveSignal.TTFT, ObjectiveSignal.FIRST_ANSWER, ObjectiveSignal.E2E)
"""As a client waits for them."""


def _within(measured: float, limit: float) -> Verdict:
    return Verdict.GOOD if measured <= limit else Verdict.BAD


def _limit(objective: Objective) -> float:
    if objective.at_most_seconds is None:
        raise ValueError(f"objective {objective.signal} has no at_most: nothing to compare with")
    return objective.at_most_seconds


def _measured(signal: ObjectiveSignal, latencies: BoundaryLatencies) -> float | None:
    match signal:
        case ObjectiveSignal.TTFT:
            return latencies.ttft
        case ObjectiveSignal.FIRST_ANSWER:
            return latencies.first_answer
        case ObjectiveSignal.TPOT:
            return latencies.tpot
        case ObjectiveSignal.MAX_ITL | ObjectiveSignal.CHUNK_GAP:
            return latencies.max_gap
        case ObjectiveSignal.E2E:
            return latencies.e2e
        case ObjectiveSignal.ACCEPTANCE | ObjectiveSignal.AVAILABILITY:
            return None
