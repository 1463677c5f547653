"""What became of every request: exact counts, and either columns or histograms of the rest.

A row is a number in each of a few arrays, in the order in which requests ended; a million of
them take eighty megabytes. Where not even that is wanted, latencies go into histograms of
which each bucket is two per cent wide.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dataplane.contract_terms import ContractTerms, ObjectiveSignal
from dataplane.judgement import Judgement, judge
from dataplane.latency import Boundary, BoundaryLatencies, Latencies
from dataplane.lifecycle import Delivery, State
from dataplane.outcome import outcome_of
from dataplane.policy import ContractPolicy
from dataplane.simulation.fleet_columns import NO_CLASS, Columns
from dataplane.simulation.fleet_request import FleetRequest
from dataplane.simulation.spread import Spread, exact_quantiles

NAN = math.nan

# Read with every request, and a name costs a fraction of what a member of an enum does.
_INVALID = State.INVALID
_REJECTED = State.REJECTED
_COMPLETE = Delivery.COMPLETE

LATENCIES = ("queue_time", "ttft", "tpot", "e2e")
PACE_SIGNALS = frozenset({ObjectiveSignal.MAX_ITL, ObjectiveSignal.CHUNK_GAP})
"""They need the time of every token: a request whose contract has one must be traced."""


@dataclass(slots=True)
class ClassResults:
    """What became of the requests of one class."""

    name: str
    spreads: dict[str, Spread] | None
    """None where all rows are kept."""
    num_offered: int = 0
    num_rejected: int = 0
    num_invalid: int = 0
    num_finished: int = 0
    num_answered: int = 0
    """Whole answers, delivered to the end."""
    num_in_contract: int = 0
    num_answered_in_contract: int = 0
    num_judged: int = 0
    """Those to which some objective applies."""
    num_by_disposition: Counter[str] = field(default_factory=Counter)
    num_prompt_tokens: int = 0
    num_cached_tokens: int = 0
    num_output_tokens: int = 0
    num_preemptions: int = 0


class FleetResults:
    """Takes each request once, when it has ended.

    `keeps_rows` False: no columns, and histograms instead of exact percentiles.
    """

    def __init__(self, contract: ContractPolicy | None, keeps_rows: bool = True) -> None:
        self._columns = Columns() if keeps_rows else None
        self.by_class: dict[str, ClassResults] = {}
        self._terms_by_class = {} if contract is None else contract.terms_by_class

    @property
    def columns(self) -> Columns | None:
        """A row for each that has ended; None: none are kept."""
        if self._columns is not None:
            self._columns.settle()
        return self._columns

    @property
    def num_ended(self) -> int:
        """Requests that nothing more happens to."""
        return sum(results.num_offered for results in self.by_class.values())

    def terms_of(self, request: FleetRequest) -> ContractTerms | None:
        """What its class was promised."""
        of_class = request.request_class
        return None if of_class is None else self._terms_by_class.get(of_class.name)

    def has_contract_for(self, class_name: str) -> bool:
        """Something was promised to requests of the class."""
        return class_name in self._terms_by_class

    def take(self, request: FleetRequest, judgement: Judgement | None = None) -> None:
        """Count it. `judgement` where it was judged by its record already."""
        latencies = server_latencies(request)
        if judgement is None and self._terms_by_class:
            judgement = self._judge(request, latencies)
        verdict = -1
        if judgement is not None and judgement.in_contract is not None:
            verdict = int(judgement.in_contract)
        self._count(request, latencies, verdict)
        if self._columns is not None:
            self._columns.add(request, latencies, verdict)

    def _judge(self, request: FleetRequest, latencies: Sequence[float]) -> Judgement | None:
        terms = self.terms_of(request)
        if terms is None:
            return None
        assert request.disposition is not None
        assert request.delivery is not None
        assert request.last_write_at is not None
        boundary = _boundary_latencies(request, terms.boundary, latencies)
        return judge(
            boundary,
            outcome_of(request.disposition, request.delivery, request.status),
            terms,
            request.last_write_at - request.arrived_at,
        )

    def _count(self, request: FleetRequest, latencies: Sequence[float], verdict: int) -> None:
        of_class = request.request_class
        results = self.of_class(NO_CLASS if of_class is None else of_class.name)
        results.num_offered += 1
        assert request.disposition is not None
        results.num_by_disposition[request.disposition] += 1
        if request.state is _REJECTED:
            results.num_rejected += 1
        elif request.state is _INVALID:
            results.num_invalid += 1
        else:
            results.num_finished += 1
        if request.scheduled_at is not None:
            results.num_prompt_tokens += len(request.call.prompt)
            results.num_cached_tokens += request.num_cached_tokens
            results.num_output_tokens += request.num_output_tokens
            results.num_preemptions += request.num_preemptions
        if request.status == 200 and request.delivery is _COMPLETE:
            results.num_answered += 1
            results.num_answered_in_contract += verdict == 1
        if verdict >= 0:
            results.num_judged += 1
            results.num_in_contract += verdict
        if results.spreads is not None:
            for name, value in zip(LATENCIES, latencies, strict=True):
                if value == value:
                    results.spreads[name].add(value)

    def of_class(self, name: str) -> ClassResults:
        """The results of a class, begun where there are none."""
        results = self.by_class.get(name)
        if results is None:
            spreads = None if self._columns is not None else {each: Spread() for each in LATENCIES}
            results = self.by_class[name] = ClassResults(name, spreads)
        return results

    def quantiles(
        self, results: ClassResults, shares: Sequence[float]
    ) -> dict[str, list[float | None]]:
        """Of each latency of a class, in seconds: the smallest value that so many are at most."""
        if results.spreads is not None:
            return {name: spread.quantiles(shares) for name, spread in results.spreads.items()}
        columns = self.columns
        assert columns is not None
        rows = columns.rows_of_class(results.name)
        return {
            name: exact_quantiles(np.frombuffer(getattr(columns, name))[rows], shares)
            for name in LATENCIES
        }


def server_latencies(request: FleetRequest) -> tuple[float, float, float, float]:
    """As in `LATENCIES`, in seconds, as `derive_latencies` has them at the server; NaN: none."""
    arrived_at = request.arrived_at
    queue_time = ttft = tpot = e2e = NAN
    if request.scheduled_at is not None:
        queue_time = request.scheduled_at - arrived_at
    first = request.first_write_at
    if first is not None:
        ttft = first - arrived_at
        last = request.last_write_at
        if last is not None and request.delivery is _COMPLETE:
            e2e = last - arrived_at
            group = request.group  # its answers are written together: O is that of the longest
            num_tokens = request.num_output_tokens if group is None else group.num_tokens_of_longest
            is_whole = request.num_first_written_tokens >= request.num_output_tokens
            if num_tokens > 1 and not is_whole:
                tpot = (last - first) / (num_tokens - 1)
    return queue_time, ttft, tpot, e2e


def _boundary_latencies(
    request: FleetRequest, boundary: Boundary, server: Sequence[float]
) -> Latencies:
    _, ttft, tpot, e2e = (None if value != value else value for value in server)
    at_server = BoundaryLatencies(ttft=ttft, first_answer=ttft, tpot=tpot, e2e=e2e)
    if request.first_token_at is None:
        return Latencies(server=at_server)
    first, last = request.first_token_at, request.last_token_at
    since_arrival = first - request.arrived_at
    if boundary is not Boundary.ENGINE:
        return Latencies(engine=BoundaryLatencies(ttft=since_arrival), server=at_server)
    return Latencies(
        engine=BoundaryLatencies(
            ttft=since_arrival,
            first_answer=since_arrival,
            tpot=_engine_tpot(request, first, last),
            e2e=None if last is None else last - request.arrived_at,
        ),
        server=at_server,
    )


def _engine_tpot(request: FleetRequest, first: float, last: float | None) -> float | None:
    if request.group is not None:
        return request.group.slowest_tpot
    num_gaps = request.num_output_tokens - 1
    return (last - first) / num_gaps if last is not None and num_gaps > 0 else None
