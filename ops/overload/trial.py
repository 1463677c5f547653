"""One run under one policy: what was kept of the contract, and how everybody else was told."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dataplane.policy import AdmissionPolicyTerms
from dataplane.simulation.fleet import Fleet
from dataplane.simulation.fleet_columns import Columns
from dataplane.simulation.fleet_request import FleetRequest
from ops.overload.conditions import Conditions, make_scenario

Vector = np.ndarray[Any, Any]
_TOLD_TO_WAIT = frozenset({429, 503})


@dataclass(slots=True)
class Answers:
    """Of those that got no answer: how each was told."""

    num_by_kind: Counter[str] = field(default_factory=Counter)
    """By rejection kind, and of those that were admitted by how they ended."""
    num_unanswered: int = 0
    """Without a status, a reason, or a Retry-After where one is due. None may be."""

    def take(self, request: FleetRequest) -> None:
        """One has ended."""
        assert request.disposition is not None
        if request.status == 200:
            return
        kind = request.rejection or request.disposition
        self.num_by_kind[str(kind)] += 1
        has_pause = request.retry_after is not None and request.retry_after >= 1
        is_told = bool(request.reason) and request.status is not None and request.status >= 400
        if not is_told or (request.status in _TOLD_TO_WAIT and not has_pause):
            self.num_unanswered += 1


class _CountedFleet(Fleet):
    """Counts how each request ended."""

    answers: Answers

    def ended(self, request: FleetRequest) -> None:
        self.answers.take(request)
        super().ended(request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run came to. Shares and rates are of requests that arrived in its middle, while the
    overload was in full swing and went on; counts are of all of them."""

    attainment: float
    """In contract, of all that were offered and that are judged, refused ones included."""
    attainment_by_class: dict[str, float]
    """Of classes of which somebody was judged."""
    goodput_per_second: float
    """Answers in contract."""
    good_tokens_per_second: float
    """Of these, prompt and output."""
    answered_per_second: float
    num_offered: int
    num_rejected: int
    num_admitted: int
    num_answered: int
    """Whole answers, in contract or not."""
    answers: Answers


def run_trial(conditions: Conditions, policy: AdmissionPolicyTerms) -> Outcome:
    """Let it happen. Raises AssertionError where a request is in two places or in none, and
    ValueError where nobody was judged."""
    fleet = _CountedFleet(make_scenario(conditions, policy))
    fleet.answers = Answers()
    fleet.run()
    fleet.check_integrity()
    results = list(fleet.results.by_class.values())
    num_offered = sum(each.num_offered for each in results)
    num_rejected = sum(each.num_rejected for each in results)
    num_admitted = sum(each.num_finished for each in results)
    assert num_offered == num_rejected + num_admitted, "a request is in one place"
    assert num_offered == sum(gateway.counts().arrived for gateway in fleet.gateways)
    columns = fleet.results.columns
    assert columns is not None
    rows = Rows.of(columns, conditions)
    attainment = rows.find_attainment()
    if attainment is None:
        raise ValueError("of the requests that count nobody was judged: there is no attainment")
    by_class = {name: rows.find_attainment(name) for name in fleet.results.by_class}
    return Outcome(
        attainment=attainment,
        attainment_by_class={n: share for n, share in by_class.items() if share is not None},
        goodput_per_second=rows.num_in_contract() / conditions.counted_seconds,
        good_tokens_per_second=rows.num_good_tokens() / conditions.counted_seconds,
        answered_per_second=rows.num_answered() / conditions.counted_seconds,
        num_offered=num_offered,
        num_rejected=num_rejected,
        num_admitted=num_admitted,
        num_answered=sum(each.num_answered for each in results),
        answers=fleet.answers,
    )


class Rows:
    """The rows of a run that are counted."""

    def __init__(
        self,
        in_contract: Vector,
        num_tokens: Vector,
        is_answered: Vector,
        is_of: dict[str, Vector],
    ) -> None:
        self._in_contract = in_contract
        self._num_tokens = num_tokens
        self._is_answered = is_answered
        self._is_of = is_of

    @classmethod
    def of(cls, columns: Columns, conditions: Conditions) -> "Rows":
        """Those that arrived in the middle of it."""
        arrived_at = np.frombuffer(columns.arrived_at)
        until = conditions.counts_from + conditions.counted_seconds
        kept = (arrived_at >= conditions.counts_from) & (arrived_at < until)
        e2e = np.frombuffer(columns.e2e)
        num_prompt = np.frombuffer(columns.num_prompt_tokens, dtype=np.int64)
        num_output = np.frombuffer(columns.num_output_tokens, dtype=np.int64)
        return cls(
            np.frombuffer(columns.in_contract, dtype=np.int8)[kept],
            (num_prompt + num_output)[kept],
            ~np.isnan(e2e[kept]),
            {name: columns.rows_of_class(name)[kept] for name in columns.class_names},
        )

    def find_attainment(self, class_name: str | None = None) -> float | None:
        """Of a class, or of all; None: nobody of it was judged."""
        verdicts = self._in_contract
        if class_name is not None:
            verdicts = verdicts[self._is_of[class_name]]
        num_judged = int((verdicts >= 0).sum())
        return float((verdicts == 1).sum()) / num_judged if num_judged else None

    def num_in_contract(self) -> int:
        """Answers, and none besides: who is refused is not in contract."""
        return int((self._in_contract == 1).sum())

    def num_good_tokens(self) -> int:
        """Of answers in contract."""
        return int(self._num_tokens[self._in_contract == 1].sum())

    def num_answered(self) -> int:
        """Whole answers."""
        return int(self._is_answered.sum())
