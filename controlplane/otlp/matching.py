"""Which request a span report is about. Pure, and the same whichever of the two came first.

A client's report belongs to

1. the request whose answer it names by the response's id: that tells attempts apart;
2. else the request whose caller's span (`traceparent`) is the client's, or a CLIENT span below
   it, as an HTTP library makes. Where several are, as after retries, the one that had output;
3. else the only request of its trace, if it is the only client's report there.

An engine's belongs to the request whose span is its parent, else to the only request of its
trace. What stays ambiguous is about none: a wrong time is worse than none.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from controlplane.otlp.report import Side, SpanReport

MAX_ENGINE_REPORTS = 16
"""For one request; a retry on another replica is another engine's span."""


class RequestKey(NamedTuple):
    """The identity of a request's record."""

    gateway_id: str
    gateway_sequence: int


class Sent(NamedTuple):
    """A report, and the tenant that its sender may speak for; empty: any."""

    report: SpanReport
    sender: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A request that reports may be about."""

    key: RequestKey
    request_id: str
    trace_id: str
    span_id: str | None
    parent_span_id: str | None
    tenant: str | None
    has_output: bool
    """Some of its answer was written."""
    has_client_report: bool = False
    num_engine_reports: int = 0


def match_reports(
    waiting: Sequence[Sent], candidates: Sequence[Candidate]
) -> list[RequestKey | None]:
    """For each of `waiting` the request it is about, or None. A request has one client's report.

    `candidates` holds every known request of the traces and ids that the reports name.
    """
    pool = _Pool(waiting, candidates)
    matched: list[RequestKey | None] = [None] * len(waiting)
    for find in (pool.named, pool.called, pool.alone):
        for index, sent in enumerate(waiting):
            if matched[index] is None:
                found = find(sent)
                if found is not None and pool.take(sent.report.side, found):
                    matched[index] = found.key
    return matched


class _Pool:
    """The requests that reports may be about, and how many reports each has already."""

    def __init__(self, waiting: Sequence[Sent], candidates: Sequence[Candidate]) -> None:
        self._by_trace: dict[str, list[Candidate]] = defaultdict(list)
        self._by_id: dict[str, list[Candidate]] = defaultdict(list)
        for each in candidates:
            self._by_trace[each.trace_id].append(each)
            self._by_id[each.request_id].append(each)
        self._has_client = {each.key for each in candidates if each.has_client_report}
        self._num_engine = {each.key: each.num_engine_reports for each in candidates}
        self._num_clients_waiting = Counter(
            (sent.report.trace_id, sent.sender)
            for sent in waiting
            if sent.report.side is Side.CLIENT
        )

    def named(self, sent: Sent) -> Candidate | None:
        """The request whose response id the client was given."""
        request_id = sent.report.named_request_id
        return None if request_id is None else _only(_allowed(sent, self._by_id.get(request_id)))

    def called(self, sent: Sent) -> Candidate | None:
        """The request that the client's span called, or that called the engine's."""
        report, in_trace = sent.report, _allowed(sent, self._by_trace.get(sent.report.trace_id))
        if report.side is Side.ENGINE:
            parent = report.parent_span_id
            return _only(each for each in in_trace if parent and each.span_id == parent)
        own = {report.span_id, *report.linked_span_ids}
        return _only(
            each for each in in_trace if each.parent_span_id in own and _may_be_of(report, each)
        )

    def alone(self, sent: Sent) -> Candidate | None:
        """The only request of the trace."""
        report = sent.report
        found = _only(_allowed(sent, self._by_trace.get(report.trace_id)))
        if found is None or report.side is Side.ENGINE:
            return found
        speakers = {"", found.tenant or ""}
        num = sum(self._num_clients_waiting[report.trace_id, sender] for sender in speakers)
        return found if num == 1 and _may_be_of(report, found) else None

    def take(self, side: Side, found: Candidate) -> bool:
        """Give `found` one more report; False when it may have no more of that side."""
        if side is Side.CLIENT:
            is_free = found.key not in self._has_client
            self._has_client.add(found.key)
            return is_free
        is_free = self._num_engine[found.key] < MAX_ENGINE_REPORTS
        self._num_engine[found.key] += is_free
        return is_free


def _allowed(sent: Sent, candidates: Iterable[Candidate] | None) -> Iterator[Candidate]:
    return (each for each in candidates or () if sent.sender in ("", each.tenant))


def _may_be_of(report: SpanReport, candidate: Candidate) -> bool:
    """Who got content got it from a request that had some: not from an attempt that failed."""
    return candidate.has_output or not report.has_content


def _only(items: Iterable[Candidate]) -> Candidate | None:
    found = list(islice(items, 2))
    return found[0] if len(found) == 1 else None
