"""What another contract would have said of the requests of before: they are judged anew, by both.

A contract is not tried on a share of the traffic: two at a time would spend one budget. What a
request took was measured at the boundary of the contract of then; of a contract at another boundary
only what was measured there as well can be told, and the rest is counted as unknown. Pure.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.slo.alert_windows import MINUTE
from controlplane.slo.alerting import firing, thresholds
from controlplane.slo.burn_rate import burn_rate
from controlplane.slo.event_counts import NO_EVENTS, EventCounts
from controlplane.slo.promised import Promise

_NS = 10**9
_MOST_TENANTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejudged:
    """One recorded request, judged by one contract."""

    kept: Mapping[str, bool]
    """By objective that applied to it (a signal, or `together`)."""
    in_contract: bool | None
    """None: nothing applied, or what applied is not known."""
    unknown: frozenset[str] = frozenset()
    """Objectives of which its row cannot tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedRequest:
    """The same, judged by both."""

    tenant: str
    request_class: str
    ended_at_unix_ns: int
    before: Rejudged
    after: Rejudged


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseCount:
    """How a promise did."""

    contract_revision: str
    target: float
    """Share of requests, 0 to 1."""
    at_most_seconds: float | None
    """None of what has no threshold."""
    num: int
    """Requests that it applied to."""
    num_bad: int
    num_unknown: int
    """More, of which nobody can tell."""
    burn_rate: float | None
    """How many times as fast as the budget bears; None: it applied to none."""
    fired: tuple[str, ...]
    """Grades of alerts that would have fired at some minute, of those whose windows are no longer
    than what was replayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseReplay:
    """One promise under both contracts."""

    request_class: str
    objective: str
    before: PromiseCount | None
    """None: it is new."""
    after: PromiseCount | None
    """None: it is not promised any more."""
    num_newly_bad: int
    """Requests that had kept it."""
    num_newly_good: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantReplay:
    """Requests of one tenant that were out of contract."""

    tenant: str
    num_bad_before: int
    num_bad_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractImpact:
    """What the recorded traffic of one deployment says of both contracts."""

    before: str | None
    """`name@number`; None: there was none."""
    after: str | None
    since_unix_ns: int
    until_unix_ns: int
    num_recorded: int
    num_replayed: int
    """The newest of them."""
    promises: tuple[PromiseReplay, ...]
    tenants: tuple[TenantReplay, ...]
    """At most ten, those for whom most changes."""
    untold_grades: tuple[str, ...]
    """Grades of alerts whose windows are longer than what was replayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedTraffic:
    """What was recorded, and how much of it is judged anew."""

    requests: Sequence[ReplayedRequest]
    num_recorded: int
    since_unix_ns: int
    until_unix_ns: int


@dataclass(slots=True)
class _Minutes:
    """Counts of one promise, by the minute in which requests ended."""

    by_minute: dict[int, EventCounts] = field(default_factory=dict)
    num_unknown: int = 0

    def add(self, minute: int, *, is_kept: bool) -> None:
        counts = EventCounts(good=int(is_kept), total=1)
        self.by_minute[minute] = self.by_minute.get(minute, NO_EVENTS) + counts

    def total(self) -> EventCounts:
        return sum(self.by_minute.values(), start=NO_EVENTS)

    def over(self, end: int, seconds: int) -> EventCounts:
        """Those of the minutes of a time that ends with the minute `end`."""
        first = end - seconds // MINUTE + 1
        found = (self.by_minute.get(minute) for minute in range(first, end + 1))
        return sum((each for each in found if each is not None), start=NO_EVENTS)


_Key = tuple[str, str]


def replay_contract(
    before: Sequence[Promise], after: Sequence[Promise], traffic: ReplayedTraffic
) -> ContractImpact:
    """`before` and `after`: what each contract promises, of one deployment."""
    counted = [_count(traffic.requests, is_after=each) for each in (False, True)]
    seconds = (traffic.until_unix_ns - traffic.since_unix_ns) // _NS
    promised = [{(p.request_class, p.objective): p for p in each} for each in (before, after)]
    flips = _flips(traffic.requests)
    return ContractImpact(
        before=before[0].contract_revision if before else None,
        after=after[0].contract_revision if after else None,
        since_unix_ns=traffic.since_unix_ns,
        until_unix_ns=traffic.until_unix_ns,
        num_recorded=traffic.num_recorded,
        num_replayed=len(traffic.requests),
        promises=tuple(
            PromiseReplay(
                request_class=key[0],
                objective=key[1],
                before=_told(promised[0].get(key), counted[0][key], seconds),
                after=_told(promised[1].get(key), counted[1][key], seconds),
                num_newly_bad=flips[key, False],
                num_newly_good=flips[key, True],
            )
            for key in dict.fromkeys([*promised[0], *promised[1]])
        ),
        tenants=_tenants(traffic.requests),
        untold_grades=tuple(dict.fromkeys(_untold([*before, *after], seconds))),
    )


def _count(requests: Sequence[ReplayedRequest], *, is_after: bool) -> defaultdict[_Key, _Minutes]:
    counted: defaultdict[_Key, _Minutes] = defaultdict(_Minutes)
    for request in requests:
        judged = request.after if is_after else request.before
        minute = request.ended_at_unix_ns // _NS // MINUTE
        for objective, is_kept in judged.kept.items():
            counted[request.request_class, objective].add(minute, is_kept=is_kept)
        for objective in judged.unknown:
            counted[request.request_class, objective].num_unknown += 1
    return counted


def _told(promise: Promise | None, minutes: _Minutes, seconds: int) -> PromiseCount | None:
    if promise is None:
        return None
    counts = minutes.total()
    return PromiseCount(
        contract_revision=promise.contract_revision,
        target=promise.target,
        at_most_seconds=promise.at_most_seconds,
        num=counts.total,
        num_bad=counts.bad,
        num_unknown=minutes.num_unknown,
        burn_rate=burn_rate(counts, promise.target),
        fired=_fired(promise, minutes, seconds),
    )


def _fired(promise: Promise, minutes: _Minutes, seconds: int) -> tuple[str, ...]:
    """At the end of any minute in which a request ended; longer windows are not known whole."""
    found: dict[str, None] = {}
    for minute in sorted(minutes.by_minute):
        fires = firing(
            lambda window, end=minute: minutes.over(end, window),  # type: ignore[misc]
            promise.target,
            promise.period_seconds,
            promise.alerting,
        )
        found |= {
            each.threshold.grade.name.value: None
            for each in fires
            if each.threshold.grade.long_seconds <= seconds
        }
    return tuple(found)


def _untold(promises: Sequence[Promise], seconds: int) -> Iterator[str]:
    for promise in promises:
        for each in thresholds(promise.target, promise.period_seconds, promise.alerting):
            if each.why_left_out is None and each.grade.long_seconds > seconds:
                yield each.grade.name.value


def _flips(requests: Sequence[ReplayedRequest]) -> Counter[tuple[_Key, bool]]:
    """Requests whose verdict by an objective that both contracts have is another one now."""
    found: Counter[tuple[_Key, bool]] = Counter()
    for request in requests:
        for objective, is_kept in request.after.kept.items():
            if request.before.kept.get(objective, is_kept) is not is_kept:
                found[(request.request_class, objective), is_kept] += 1
    return found


def _tenants(requests: Sequence[ReplayedRequest]) -> tuple[TenantReplay, ...]:
    before = Counter(each.tenant for each in requests if each.before.in_contract is False)
    after = Counter(each.tenant for each in requests if each.after.in_contract is False)
    changed = [name for name in {*before, *after} if before[name] != after[name]]
    changed.sort(key=lambda name: (-abs(after[name] - before[name]), name))
    return tuple(
        TenantReplay(tenant=name, num_bad_before=before[name], num_bad_after=after[name])
        for name in changed[:_MOST_TENANTS]
    )
