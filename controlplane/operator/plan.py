"""The plan: what to stop and what to start, as the difference of desired and actual by key.

Pure: plain data in, plain data out. Stops come before starts, and a deployment never has
more replicas alive than it asks for and its surge allows, draining ones included: their memory
is still taken. Of those that are ready, none that differs is stopped before so many others are
that no more than may be missing are. Nothing is remembered between two plans, so a lost step is
simply planned again.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.operator.desired import DesiredReplicas


@dataclass(frozen=True, slots=True, kw_only=True)
class ActualReplica:
    """One replica whose process may still be alive."""

    replica_id: str
    deployment: str
    launcher: str
    digest: str
    """Of the spec it was started from."""
    is_ready: bool
    is_draining: bool
    rollout: int | None = None
    """Whose candidate it was started for."""
    is_reached: bool = True
    """Gateways could send it requests, or had long enough to come to it. One that became ready is
    no capacity before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Drain and end one replica."""

    replica_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Start one more replica of a deployment, or of its candidate."""

    lane: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do next; deployments that are as desired do not appear."""

    stops: tuple[Stop, ...] = ()
    starts: tuple[Start, ...] = ()
    holds: Mapping[str, str] = field(default_factory=dict)
    """Deployments, and candidates, that lack replicas and get none now, with the reason."""
    settled: tuple[str, ...] = ()
    """Deployments that have every desired replica ready, and no other."""


def plan_replicas(
    desired: Sequence[DesiredReplicas],
    actual: Sequence[ActualReplica],
    backoffs: Mapping[str, str],
    unreadable: Collection[str] = (),
) -> Plan:
    """`backoffs` names the lanes that must not start a replica yet, with the reason. Of a
    deployment with two arms the stable one comes first in `desired`.

    Of `unreadable` ones nobody knows what is desired: what runs of them goes on.
    """
    known = {*unreadable, *(each.deployment for each in desired)}
    stops = [
        Stop(
            replica_id=replica.replica_id,
            reason=f"deployment {replica.deployment} no longer exists",
        )
        for replica in actual
        if replica.deployment not in known and not replica.is_draining
    ]
    starts: list[Start] = []
    holds: dict[str, str] = {}
    settled: list[str] = []
    by_deployment: dict[str, list[ActualReplica]] = defaultdict(list)
    for replica in actual:
        by_deployment[replica.deployment].append(replica)
    num_alive = Counter(replica.deployment for replica in actual)
    for each in desired:
        of_deployment = by_deployment[each.deployment]
        own, aborted = _own(each, of_deployment), _aborted(each, of_deployment)
        stops += [
            Stop(
                replica_id=replica.replica_id, reason=f"rollout {replica.rollout} ended without it"
            )
            for replica in aborted
            if not replica.is_draining
        ]
        if each.problem is not None:
            holds[each.lane] = each.problem
            stops += _plan_surplus_stops(each, own)
            continue
        stops += _plan_stops(each, own)
        num_starts = _num_starts(each, own, num_alive[each.deployment])
        if num_starts and each.lane in backoffs:
            holds[each.lane] = backoffs[each.lane]
        else:
            starts += [_start(each)] * num_starts
            num_alive[each.deployment] += num_starts
        if _is_settled(each, own) and not aborted:
            settled.append(each.lane)
    return Plan(stops=tuple(stops), starts=tuple(starts), holds=holds, settled=tuple(settled))


def matches(replica: ActualReplica, desired: DesiredReplicas) -> bool:
    """It is what is desired, so it is kept or adopted."""
    return replica.digest == desired.digest and replica.launcher == desired.launcher


def _own(desired: DesiredReplicas, of_deployment: Sequence[ActualReplica]) -> list[ActualReplica]:
    """Of the stable arm all that is not the candidate's; what was one's and is promoted is not."""
    if desired.rollout is not None:
        return [each for each in of_deployment if each.rollout == desired.rollout]
    return [
        each
        for each in of_deployment
        if each.rollout is None
        or (each.rollout != desired.beside_rollout and matches(each, desired))
    ]


def _aborted(
    desired: DesiredReplicas, of_deployment: Sequence[ActualReplica]
) -> list[ActualReplica]:
    """What was tried and came back: it is nobody's capacity, and goes at once."""
    if desired.rollout is not None:
        return []
    return [
        each
        for each in of_deployment
        if each.rollout not in (None, desired.beside_rollout) and not matches(each, desired)
    ]


def _plan_stops(desired: DesiredReplicas, own: Sequence[ActualReplica]) -> list[Stop]:
    # Ready ones stay first; among equals the id decides, so that two plans agree.
    staying = sorted(
        (replica for replica in own if not replica.is_draining),
        key=lambda replica: (not replica.is_ready, replica.replica_id),
    )
    fitting = [replica for replica in staying if matches(replica, desired)]
    differs = f"it differs from what generation {desired.generation} asks for"
    return [
        Stop(replica_id=replica.replica_id, reason=differs)
        for replica in _replaceable(desired, staying, fitting[: desired.num_replicas])
    ] + [
        Stop(replica_id=replica.replica_id, reason=_asked_for(desired))
        for replica in fitting[desired.num_replicas :]
    ]


def _replaceable(
    desired: DesiredReplicas, staying: Sequence[ActualReplica], kept: Sequence[ActualReplica]
) -> list[ActualReplica]:
    """Those that differ and can go now: all that serve nobody, and of the others as many as leave
    enough that do."""
    differing = [replica for replica in staying if not matches(replica, desired)]
    serving = [replica for replica in differing if replica.is_ready]
    num_ready = sum(replica.is_ready and replica.is_reached for replica in kept) + len(serving)
    num_spare = max(0, num_ready - (desired.num_replicas - desired.max_unavailable))
    return [
        *(replica for replica in differing if not replica.is_ready),
        *serving[:num_spare],
    ]


def _num_starts(desired: DesiredReplicas, own: Sequence[ActualReplica], num_alive: int) -> int:
    """As many as miss, and as have room beside all that is alive of the deployment."""
    num_fitting = sum(matches(replica, desired) and not replica.is_draining for replica in own)
    num_missing = desired.num_replicas - num_fitting
    most = desired.max_alive
    most = desired.num_replicas + desired.max_surge if most is None else most
    return max(0, min(num_missing, most - num_alive))


def _plan_surplus_stops(desired: DesiredReplicas, own: Sequence[ActualReplica]) -> list[Stop]:
    """Of a deployment that can start nothing: what differs stays, what is too many goes."""
    staying = [replica for replica in own if not replica.is_draining]
    staying.sort(
        key=lambda replica: (
            not matches(replica, desired),
            not replica.is_ready,
            replica.replica_id,
        )
    )
    return [
        Stop(replica_id=replica.replica_id, reason=_asked_for(desired))
        for replica in staying[desired.num_replicas :]
    ]


def _start(desired: DesiredReplicas) -> Start:
    return Start(
        lane=desired.lane,
        reason=_asked_for(desired),
    )


def _asked_for(desired: DesiredReplicas) -> str:
    plural = "" if desired.num_replicas == 1 else "s"
    if desired.rollout is not None:
        return f"rollout {desired.rollout} tries {desired.num_replicas} replica{plural}"
    return f"generation {desired.generation} asks for {desired.num_replicas} replica{plural}"


def _is_settled(desired: DesiredReplicas, own: Sequence[ActualReplica]) -> bool:
    return len(own) == desired.num_replicas and all(
        matches(replica, desired) and replica.is_ready and not replica.is_draining
        for replica in own
    )
