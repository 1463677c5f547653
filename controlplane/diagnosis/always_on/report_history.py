"""What gateways reported of each deployment over the last minutes: it costs nothing to ask."""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from controlplane.diagnosis.reading import Origin, Reading, Series, SourceKind
from controlplane.diagnosis.some_callers import SOME_CALLERS
from controlplane.diagnosis.sources.facts import facts_of
from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.sources.plain_number import plain_number
from dataplane.engine_metrics.signal import Signal
from dataplane.report import GatewayReport, ReplicaReport

_PLACE = "gateway reports"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedLoad:
    """Of one deployment at one moment, over all gateways that report. None: none says it."""

    at: float
    num_outstanding: int
    """With its replicas, and not finished."""
    num_queued: int | None
    oldest_queued_seconds: float | None
    """None: nobody waits, or gateways serve other deployments too and do not say of which."""
    arrived: dict[str, int]
    """Since it began, by gateway. Empty where one of them serves other deployments too: it does not
    say of which."""
    num_seats: int | None
    """Of all its replicas that are connected, as their engines told; None: one did not."""
    held_back: dict[str, str]
    """Why, by replica."""
    not_believed: dict[str, str]
    unreachable: dict[str, str]

    @property
    def is_suspect(self) -> bool:
        """Whether this alone is a reason to look closer."""
        return bool(self.num_queued or self.held_back or self.not_believed or self.unreachable)


class Reports:
    """What gateways reported last, and of it what is of which replica."""

    def __init__(self, reports: Sequence[GatewayReport]) -> None:
        self.all = reports
        self._by_replica: dict[str, list[ReplicaReport]] = defaultdict(list)
        for report in reports:
            for each in report.replicas:
                self._by_replica[each.replica_id].append(each)

    def of(self, replicas: Iterable[str]) -> list[ReplicaReport]:
        """What each gateway says of each of these."""
        return [each for key in sorted(replicas) for each in self._by_replica.get(key, ())]


def read_reports(
    told: Reports, replicas: Iterable[str], deployment: str, at: float
) -> ReportedLoad | None:
    """What they say of `deployment`, whose replicas have these ids. None: nobody reports."""
    reports = told.all
    if not reports:
        return None
    own = told.of(replicas)
    by_deployment = [r.num_queued_by_deployment for r in reports]
    said = [each.get(deployment, 0) for each in by_deployment if each is not None]
    serving = _serving_it_alone(reports, deployment)
    oldest = [r.oldest_queued_seconds for r in serving if r.oldest_queued_seconds is not None]
    return ReportedLoad(
        at=at,
        num_outstanding=sum(each.num_outstanding for each in own),
        num_queued=sum(said) if said else None,
        oldest_queued_seconds=max(oldest, default=None),
        arrived={r.gateway_id: r.counts.arrived for r in serving},
        num_seats=_num_seats(own),
        held_back=_reasons(own, "held_back"),
        not_believed=_reasons(own, "not_believed"),
        unreachable={
            each.replica_id: each.error or "not connected" for each in own if not each.is_connected
        },
    )


def _serving_it_alone(reports: Sequence[GatewayReport], deployment: str) -> list[GatewayReport]:
    """The gateways of `deployment`, if what they say of all their requests is of its own; none
    where one of them serves, or may serve, others too."""
    own = []
    for report in reports:
        queued = report.num_queued_by_deployment
        if queued is not None and deployment not in queued:
            continue
        if queued is None or len(queued) > 1:
            return []
        own.append(report)
    return own


class ReportHistory:
    """One deployment's."""

    def __init__(self) -> None:
        self._loads: deque[ReportedLoad] = deque()

    @property
    def last(self) -> ReportedLoad | None:
        """The newest."""
        return self._loads[-1] if self._loads else None

    def take(self, load: ReportedLoad) -> None:
        """One more."""
        self._loads.append(load)

    def forget_before(self, moment: float) -> None:
        """What was said earlier."""
        while self._loads and self._loads[0].at < moment:
            self._loads.popleft()

    def tell(
        self,
        *,
        is_telling_seats: bool = False,
        is_telling_in_flight: bool = True,
        are_all_ours: bool = True,
    ) -> Part:
        """Series of counts, and facts of what the newest report says of replicas. Seats are for
        windows in which no page tells them; they and what is in flight are for windows whose
        engines are all called by gateways. `are_all_ours`: by nobody else."""
        if not self._loads:
            return Part()
        newest = self._loads[-1]
        in_flight = self._in_flight(are_all_ours) if is_telling_in_flight else ()
        seats = self._seats() if is_telling_seats else ()
        return Part(
            series=(*in_flight, *self._series(), *seats),
            facts=facts_of(_told_of_replicas(newest), newest.at, is_observed=True),
            start=self._loads[0].at,
            end=newest.at,
        )

    def _series(self) -> Iterator[Series]:
        queued = self._queued()
        held = [(load.at, float(len(load.held_back))) for load in self._loads]
        oldest = [
            (load.at, load.oldest_queued_seconds)
            for load in self._loads
            if load.oldest_queued_seconds is not None
        ]
        for signal, name, points in (
            (Signal.GATEWAY_QUEUED, "queued", queued),
            (Signal.GATEWAY_HELD_BACK_REPLICAS, "replicas held back", held),
            (Signal.GATEWAY_OLDEST_QUEUED, "oldest queued seconds", oldest),
        ):
            if points:
                yield _series(signal, f"gateways: {name}", points)
        yield from self._arrived()

    def _in_flight(self, are_all_ours: bool) -> Iterator[Series]:
        """Where others may send requests too, that none of ours is in flight says nothing of the
        engine, and it is not told."""
        outstanding = [(load.at, float(load.num_outstanding)) for load in self._loads]
        at_queue = dict(self._queued())
        both = [(at, value + at_queue[at]) for at, value in outstanding if at in at_queue]
        points = both or outstanding
        if are_all_ours or points[-1][1] > 0:
            labels = None if are_all_ours else SOME_CALLERS
            yield _series(Signal.GATEWAY_IN_FLIGHT, "gateways: in flight", points, labels)

    def _queued(self) -> list[tuple[float, float]]:
        loads = self._loads
        return [(load.at, float(load.num_queued)) for load in loads if load.num_queued is not None]

    def _seats(self) -> Iterator[Series]:
        points = [
            (load.at, float(load.num_seats)) for load in self._loads if load.num_seats is not None
        ]
        if points:
            yield _series(Signal.SEATS, "gateways: seats of its replicas", points)

    def _arrived(self) -> Iterator[Series]:
        """Apart by gateway: each begins at zero when it starts, and comes and goes."""
        points: dict[str, list[tuple[float, float]]] = {}
        for load in self._loads:
            for gateway_id, number in load.arrived.items():
                points.setdefault(gateway_id, []).append((load.at, float(number)))
        for gateway_id, told in points.items():
            yield _series(
                Signal.GATEWAY_ARRIVED, "gateways: arrived", told, {"gateway": gateway_id}
            )


def _told_of_replicas(load: ReportedLoad) -> dict[str, object]:
    reasons_by_key = {
        "replicas_held_back": load.held_back,
        "replicas_not_believed": load.not_believed,
        "replicas_unreachable": load.unreachable,
    }
    return {
        key: "; ".join(f"{name}: {why}" for name, why in sorted(reasons.items()))
        for key, reasons in reasons_by_key.items()
        if reasons
    }


def _series(
    signal: Signal,
    name: str,
    points: Sequence[tuple[float, float]],
    labels: Mapping[str, str] | None = None,
) -> Series:
    return Series(
        signal=signal,
        origin=Origin(kind=SourceKind.GATEWAY, name=name, place=_PLACE),
        readings=tuple(Reading(at, value, plain_number(value)) for at, value in points),
        labels=labels or {},
    )


def _num_seats(replicas: Iterable[ReplicaReport]) -> int | None:
    """Each replica's once, whichever gateways reach it."""
    seats = {
        each.replica_id: None if each.stats is None else each.stats.max_num_seqs
        for each in replicas
        if each.is_connected
    }
    known = [number for number in seats.values() if number is not None]
    return sum(known) if known and len(known) == len(seats) else None


def _reasons(replicas: Iterable[ReplicaReport], name: str) -> dict[str, str]:
    return {each.replica_id: why for each in replicas if (why := getattr(each, name)) is not None}
