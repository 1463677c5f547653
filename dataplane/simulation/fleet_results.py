"""What became of every request: exact counts, and either columns or histograms of the rest.

A row is a number in each of a few arrays, in the order in which requests ended; a million of
them take eighty megabytes. Where not even that is wanted, latencies go into histograms of
which each bucket is two per cent wide.
"""

import hashlib
import math
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dataplane.latency import (
    Boundary,
    BoundaryLatencies,
    ContractTerms,
    Judgement,
    Latencies,
    ObjectiveSignal,
    judge,
)
from dataplane.lifecycle import Delivery, Disposition, State
from dataplane.outcome import outcome_of
from dataplane.policy import ContractPolicy
from dataplane.simulation.fleet_request import FleetRequest

NAN = math.nan
_DISPOSITIONS = tuple(Disposition)
_NUMBER_BY_DISPOSITION = {disposition: n for n, disposition in enumerate(_DISPOSITIONS)}
_DELIVERIES = tuple(Delivery)
_NUMBER_BY_DELIVERY = {delivery: n for n, delivery in enumerate(_DELIVERIES)}
_BUCKET = math.log(1.02)
_LEAST = 1e-9
NO_CLASS = "(none)"
"""Requests that no class took."""

LATENCIES = ("queue_time", "ttft", "tpot", "e2e")
PACE_SIGNALS = frozenset({ObjectiveSignal.MAX_ITL, ObjectiveSignal.CHUNK_GAP})
"""They need the time of every token: a request whose contract has one must be traced."""


class Spread:
    """How one latency is spread: a histogram of it."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.num_values = 0

    def add(self, value: float) -> None:
        """One more, in seconds."""
        self.num_values += 1
        self._counts[round(math.log(max(value, _LEAST)) / _BUCKET)] += 1

    def quantiles(self, shares: Sequence[float]) -> list[float | None]:
        """The smallest value that so many of all are at most, within 1 %; None without any."""
        return [self._value_at(rank) for rank in _ranks(shares, self.num_values)]

    def _value_at(self, rank: int | None) -> float | None:
        if rank is None:
            return None
        for bucket, count in sorted(self._counts.items()):
            if rank < count:
                return math.exp(bucket * _BUCKET)
            rank -= count
        raise AssertionError("a rank is below the number of values")


def exact_quantiles(values: "np.ndarray[Any, Any]", shares: Sequence[float]) -> list[float | None]:
    """The smallest value that so many of all are at most; None without any. NaN does not count."""
    values = values[~np.isnan(values)]
    ranks = _ranks(shares, len(values))
    known = sorted({rank for rank in ranks if rank is not None})
    ordered = np.partition(values, known) if known else values
    return [None if rank is None else float(ordered[rank]) for rank in ranks]


def _ranks(shares: Sequence[float], num_values: int) -> list[int | None]:
    if not num_values:
        return [None for _ in shares]
    return [max(0, math.ceil(share * num_values) - 1) for share in shares]


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


class Columns:
    """A row for each request, as arrays of the same length."""

    def __init__(self) -> None:
        self.number = array("q")
        self.arrived_at = array("d")
        self.queue_time = array("d")
        self.ttft = array("d")
        self.tpot = array("d")
        self.e2e = array("d")
        self.num_prompt_tokens = array("l")
        self.num_cached_tokens = array("l")
        self.num_output_tokens = array("l")
        self.disposition = array("B")
        """Position in `Disposition`; so for the next."""
        self.delivery = array("B")
        self.request_class = array("H")
        """Position in `class_names`; so for the next two."""
        self.tenant = array("H")
        self.replica = array("H")
        self.in_contract = array("b")
        """1, 0, or -1 where nothing applies."""
        self.class_names: dict[str, int] = {}
        self.tenant_names: dict[str, int] = {}
        self.replica_names: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.number)

    def add(self, request: FleetRequest, latencies: "Sequence[float]", verdict: int) -> None:
        """One row. `latencies` as in `LATENCIES`, NaN where there is none."""
        self.number.append(request.number)
        self.arrived_at.append(request.arrived_at)
        self.queue_time.append(latencies[0])
        self.ttft.append(latencies[1])
        self.tpot.append(latencies[2])
        self.e2e.append(latencies[3])
        self.num_prompt_tokens.append(len(request.call.prompt))
        self.num_cached_tokens.append(request.num_cached_tokens)
        self.num_output_tokens.append(request.num_output_tokens)
        assert request.disposition is not None
        assert request.delivery is not None
        self.disposition.append(_NUMBER_BY_DISPOSITION[request.disposition])
        self.delivery.append(_NUMBER_BY_DELIVERY[request.delivery])
        of_class = request.request_class
        replica = request.replica
        names = self.class_names
        name = NO_CLASS if of_class is None else of_class.name
        self.request_class.append(names.setdefault(name, len(names)))
        names = self.tenant_names
        self.tenant.append(names.setdefault(request.call.caller.tenant, len(names)))
        names = self.replica_names
        name = "" if replica is None else replica.replica_id
        self.replica.append(names.setdefault(name, len(names)))
        self.in_contract.append(verdict)

    def rows_of_class(self, name: str) -> "np.ndarray[Any, Any]":
        """Which rows are of a class, as a mask."""
        numbers = np.frombuffer(self.request_class, dtype=np.uint16)
        mask: np.ndarray[Any, Any] = numbers == self.class_names.get(name, -1)
        return mask

    def checksum(self) -> str:
        """SHA-256 of all of it: the same for the same scenario and seed."""
        digest = hashlib.sha256()
        for name, value in vars(self).items():
            digest.update(name.encode())
            digest.update(
                value.tobytes() if isinstance(value, array) else repr(list(value)).encode()
            )
        return digest.hexdigest()


class FleetResults:
    """Takes each request once, when it has ended.

    `keeps_rows` False: no columns, and histograms instead of exact percentiles.
    """

    def __init__(self, contract: ContractPolicy | None, keeps_rows: bool = True) -> None:
        self.columns = Columns() if keeps_rows else None
        self.by_class: dict[str, ClassResults] = {}
        self._terms_by_class = {} if contract is None else contract.terms_by_class

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
        if self.columns is not None:
            self.columns.add(request, latencies, verdict)

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
        if request.state is State.REJECTED:
            results.num_rejected += 1
        elif request.state is State.INVALID:
            results.num_invalid += 1
        else:
            results.num_finished += 1
        if request.scheduled_at is not None:
            results.num_prompt_tokens += len(request.call.prompt)
            results.num_cached_tokens += request.num_cached_tokens
            results.num_output_tokens += request.num_output_tokens
            results.num_preemptions += request.num_preemptions
        if request.status == 200 and request.delivery is Delivery.COMPLETE:
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
            spreads = None if self.columns is not None else {each: Spread() for each in LATENCIES}
            results = self.by_class[name] = ClassResults(name, spreads)
        return results

    def quantiles(
        self, results: ClassResults, shares: Sequence[float]
    ) -> dict[str, list[float | None]]:
        """Of each latency of a class, in seconds: the smallest value that so many are at most."""
        if results.spreads is not None:
            return {name: spread.quantiles(shares) for name, spread in results.spreads.items()}
        assert self.columns is not None
        rows = self.columns.rows_of_class(results.name)
        return {
            name: exact_quantiles(np.frombuffer(getattr(self.columns, name))[rows], shares)
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
        if last is not None and request.delivery is Delivery.COMPLETE:
            e2e = last - arrived_at
            num_tokens = request.num_output_tokens
            if num_tokens > 1 and request.call.caller.is_stream:
                tpot = (last - first) / (num_tokens - 1)
    return queue_time, ttft, tpot, e2e


def _boundary_latencies(
    request: FleetRequest, boundary: Boundary, server: Sequence[float]
) -> Latencies:
    if boundary is Boundary.SERVER:
        _, ttft, tpot, e2e = (None if value != value else value for value in server)
        return Latencies(server=BoundaryLatencies(ttft=ttft, tpot=tpot, e2e=e2e))
    if boundary is Boundary.ENGINE and request.first_token_at is not None:
        first, last = request.first_token_at, request.last_token_at
        num_gaps = request.num_output_tokens - 1
        return Latencies(
            engine=BoundaryLatencies(
                ttft=first - request.arrived_at,
                tpot=(last - first) / num_gaps if last is not None and num_gaps > 0 else None,
                e2e=None if last is None else last - request.arrived_at,
            )
        )
    return Latencies()
