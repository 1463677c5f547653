"""Who would be admitted differently, had the recorded requests come under another policy."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.rollouts.change_plan.documents import ChangedField
from controlplane.rollouts.change_plan.limit_replay import replay_limits
from controlplane.rollouts.change_plan.reclassed import (
    NO_CLASS,
    PolicyChange,
    RuleReach,
    reclass,
    rule_reaches,
)
from controlplane.rollouts.change_plan.recorded import RecordedTraffic

_NOT_REPLAYED = ("limits.", "overload.", "slow_clients.", "routing.")
"""What these bound depends on the load at that moment, which no row keeps."""
_ORDER_ALONE = (".priority", ".aging", ".weight")
"""Who goes first, and not who is admitted."""
_OF_CLASSES = (".match", ".max_queue", ".deadline", ".name")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassMove:
    """Requests of one tenant that another class would take."""

    tenant: str
    before: str
    after: str
    """"": no class, they would be refused."""
    num_requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitMove:
    """A limit that other requests would meet, or more, or fewer."""

    limit: str
    """tokens_per_minute, max_concurrent, max_queue or deadline."""
    of: str
    """The tenant, or the class."""
    before: int
    after: int
    """Requests, of the same traffic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficImpact:
    """What the recorded traffic of one deployment would have met."""

    since_unix_ns: int
    until_unix_ns: int
    num_recorded: int
    num_replayed: int
    """The newest of them."""
    num_unclear: int
    """Their class rests on what was not recorded; they count where they were."""
    class_moves: tuple[ClassMove, ...]
    limit_moves: tuple[LimitMove, ...]
    rules: tuple[RuleReach, ...]
    not_replayed: tuple[str, ...]
    """Fields that change, and whose effect no recorded request tells."""


def replay(
    change: PolicyChange, traffic: RecordedTraffic, fields: Sequence[ChangedField]
) -> TrafficImpact:
    """`fields` are those that differ between both policies."""
    found = reclass(change, traffic.requests)
    names_after = {each.name for each in change.after.classes}
    after = [
        (each.request_class if each.request_class in names_after else NO_CLASS)
        if found_class is None
        else found_class
        for each, found_class in zip(traffic.requests, found.classes, strict=True)
    ]
    moves = Counter(
        (each.tenant, each.request_class, name)
        for each, name, known in zip(traffic.requests, after, found.classes, strict=True)
        if known is not None and name != each.request_class
    )
    return TrafficImpact(
        since_unix_ns=traffic.since_unix_ns,
        until_unix_ns=traffic.until_unix_ns,
        num_recorded=traffic.num_recorded,
        num_replayed=len(traffic.requests),
        num_unclear=sum(each is None for each in found.classes),
        class_moves=tuple(
            ClassMove(tenant=tenant, before=old, after=new, num_requests=number)
            for (tenant, old, new), number in moves.most_common()
        ),
        limit_moves=_limit_moves(change, traffic, after),
        rules=rule_reaches(change, found),
        not_replayed=tuple(each.path for each in fields if not _is_replayed(each)),
    )


def _limit_moves(
    change: PolicyChange, traffic: RecordedTraffic, after: Sequence[str]
) -> tuple[LimitMove, ...]:
    names = {each.name for each in change.before.classes}
    before = [
        each.request_class if each.request_class in names else NO_CLASS for each in traffic.requests
    ]
    met_before = replay_limits(change.before, traffic.requests, before)
    met_after = replay_limits(change.after, traffic.requests, after)
    return tuple(
        LimitMove(limit=limit, of=of, before=met_before[limit, of], after=met_after[limit, of])
        for limit, of in sorted({*met_before, *met_after})
        if met_before[limit, of] != met_after[limit, of]
    )


def _is_replayed(field: ChangedField) -> bool:
    path = field.path
    if path.startswith(_NOT_REPLAYED) or path in {each.rstrip(".") for each in _NOT_REPLAYED}:
        return False
    if path.startswith("classes"):
        is_whole = path.endswith("]") or path == "classes"
        return is_whole or path.endswith((*_OF_CLASSES, *_ORDER_ALONE))
    return True
