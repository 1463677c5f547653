"""What gateways reported of each deployment over the last minutes: it costs nothing to ask."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from controlplane.diagnosis.reading import Origin, Reading, Series, SourceKind
from controlplane.diagnosis.signal import Signal
from controlplane.diagnosis.sources.facts import facts_of
from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.sources.plain_number import plain_number
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
    num_arrived: int | None
    """Since the gateways began. None: they serve other deployments too."""
    held_back: dict[str, str]
    """Why, by replica."""
    not_believed: dict[str, str]
    unreachable: dict[str, str]

    @property
    def is_suspect(self) -> bool:
        """Whether this alone is a reason to look closer."""
        return bool(self.num_queued or self.held_back or self.not_believed or self.unreachable)


def read_reports(
    reports: Sequence[GatewayReport], replicas: Iterable[str], deployment: str, at: float
) -> ReportedLoad | None:
    """What they say of `deployment`, whose replicas have these ids. None: nobody reports."""
    if not reports:
        return None
    wanted = frozenset(replicas)
    own = [each for report in reports for each in report.replicas if each.replica_id in wanted]
    by_deployment = [r.num_queued_by_deployment for r in reports]
    said = [each.get(deployment, 0) for each in by_deployment if each is not None]
    is_alone = all(each is not None and len(each) == 1 for each in by_deployment)
    oldest = [r.oldest_queued_seconds for r in reports if r.oldest_queued_seconds is not None]
    return ReportedLoad(
        at=at,
        num_outstanding=sum(each.num_outstanding for each in own),
        num_queued=sum(said) if said else None,
        oldest_queued_seconds=max(oldest) if oldest and is_alone else None,
        num_arrived=sum(r.counts.arrived for r in reports) if is_alone else None,
        held_back=_reasons(own, "held_back"),
        not_believed=_reasons(own, "not_believed"),
        unreachable={
            each.replica_id: each.error or "not connected" for each in own if not each.is_connected
        },
    )


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

    def tell(self) -> Part:
        """Series of counts, and facts of what the newest report says of replicas."""
        if not self._loads:
            return Part()
        newest = self._loads[-1]
        known: dict[str, object] = {}
        for key, reasons in (
            ("replicas_held_back", newest.held_back),
            ("replicas_not_believed", newest.not_believed),
            ("replicas_unreachable", newest.unreachable),
        ):
            if reasons:
                known[key] = "; ".join(f"{name}: {why}" for name, why in sorted(reasons.items()))
        return Part(
            series=tuple(self._series()),
            facts=facts_of(known, newest.at),
            start=self._loads[0].at,
            end=newest.at,
        )

    def _series(self) -> Iterator[Series]:
        outstanding = [(load.at, float(load.num_outstanding)) for load in self._loads]
        queued = [
            (load.at, float(load.num_queued)) for load in self._loads if load.num_queued is not None
        ]
        at_queue = dict(queued)
        both = [(at, value + at_queue[at]) for at, value in outstanding if at in at_queue]
        held = [(load.at, float(len(load.held_back))) for load in self._loads]
        oldest = [
            (load.at, load.oldest_queued_seconds)
            for load in self._loads
            if load.oldest_queued_seconds is not None
        ]
        arrived = [
            (load.at, float(load.num_arrived))
            for load in self._loads
            if load.num_arrived is not None
        ]
        for signal, name, points in (
            (Signal.GATEWAY_ARRIVED, "arrived", arrived),
            (Signal.GATEWAY_IN_FLIGHT, "in flight", both or outstanding),
            (Signal.GATEWAY_QUEUED, "queued", queued),
            (Signal.GATEWAY_HELD_BACK_REPLICAS, "replicas held back", held),
            (Signal.GATEWAY_OLDEST_QUEUED, "oldest queued seconds", oldest),
        ):
            if points:
                yield Series(
                    signal=signal,
                    origin=Origin(kind=SourceKind.GATEWAY, name=f"gateways: {name}", place=_PLACE),
                    readings=tuple(Reading(at, v, plain_number(v)) for at, v in points),
                )


def _reasons(replicas: Iterable[ReplicaReport], name: str) -> dict[str, str]:
    return {each.replica_id: why for each in replicas if (why := getattr(each, name)) is not None}
