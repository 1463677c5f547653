"""Replicas that do worse than the others are sent nothing for a while, and come back slowly.

    in service --outlier--> ejected --its time is over--> returning --share grows--> in service
                               ^------------- one failure --------------'
    (new) --others serve already--> warming --share grows--> in service

A replica is an outlier when it fails several times in a row, when it fails much more often than
the others do, or when its first tokens take much longer than theirs. All three compare: what every
replica suffers from, ejecting one does not cure. Never more than half are out at once, and never
all: where nobody else is connected, one that is ejected is better than none.

Pure: times are passed in. Of what was counted, half is forgotten with every window. What is known
of a replica outlasts its connection: one that comes back only to fail again is not new.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum

_SETTLED_SECONDS = 10.0
"""So long after its start a gateway has reached whoever was there before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EjectionTerms:
    """When a replica is an outlier, and for how long it is out."""

    consecutive_failures: int = 5
    failure_share: float = 0.5
    """Of its requests in a window, and more than twice the share of the others."""
    latency_factor: float = 5.0
    """How many times the others' mean seconds to the first token are too many."""
    min_latency_seconds: float = 1.0
    """Below, no first token counts as late."""
    stall_seconds: float = 10.0
    """A request that waits for so long for its first token counts as one that took so long."""
    min_requests: int = 10
    """Before its share and its latency say anything."""
    window_seconds: float = 30.0
    """Half of what was counted is forgotten as often."""
    eject_seconds: float = 10.0
    """The first time; twice as long each further time."""
    max_eject_seconds: float = 300.0
    return_seconds: float = 30.0
    """From the first request after an ejection to the full share."""
    first_share: float = 0.1
    warm_seconds: float = 0.0
    """From its first connection to the full share, of one that joins others: its caches are cold.
    0: it has that at once."""
    max_ejected_share: float = 0.5


class Service(StrEnum):
    """Where a replica stands."""

    IN_SERVICE = "in_service"
    EJECTED = "ejected"
    RETURNING = "returning"
    WARMING = "warming"


@dataclass(slots=True)
class _Health:
    service: Service = Service.IN_SERVICE
    since: float = 0.0
    until: float = 0.0
    why: str | None = None
    first_connected_at: float | None = None
    num_ejections: int = 0
    num_consecutive: int = 0
    num_ended: int = 0
    num_failed: int = 0
    num_first_tokens: int = 0
    first_token_seconds: float = 0.0
    """Of all of those."""
    waiting: dict[object, float] = field(default_factory=dict)
    """When what has no first token yet was sent, oldest first."""

    def forget_all(self) -> None:
        self.num_consecutive = self.num_ended = self.num_failed = self.num_first_tokens = 0
        self.first_token_seconds = 0.0

    def forget_half(self) -> None:
        self.num_ended //= 2
        self.num_failed //= 2
        self.first_token_seconds *= (self.num_first_tokens // 2) / (self.num_first_tokens or 1)
        self.num_first_tokens //= 2


@dataclass(frozen=True, slots=True, kw_only=True)
class EjectionStatus:
    """One replica that is not in service as the others are."""

    replica_id: str
    service: Service
    why: str
    seconds_left: float
    share: float

    def describe(self) -> str:
        """In words."""
        if self.service is Service.EJECTED:
            return f"ejected for {self.seconds_left:.0f} s more: {self.why}"
        doing = "warming up" if self.service is Service.WARMING else "coming back"
        return f"{doing}, with {self.share:.0%} of a share: {self.why}"


class Ejections:
    """Of the replicas of one deployment, as one gateway saw them."""

    def __init__(self, terms: EjectionTerms, now: float = 0.0) -> None:
        self.terms = terms
        self._health: dict[str, _Health] = {}
        self._connected: frozenset[str] = frozenset()
        self._window_ends = now + terms.window_seconds
        self.is_anybody_returning = False
        """Someone's share is less than the others'. For reading alone."""
        self._returning: dict[str, _Health] = {}
        self._out: dict[str, _Health] = {}

    @property
    def next_change_at(self) -> float | None:
        """When `check` next lets somebody back; None: nobody is out."""
        waits = [each.until for each in self._out.values()]
        return min(waits, default=None)

    def set_replicas(
        self, enforced: Collection[str], connected: Collection[str], now: float
    ) -> None:
        """All there are, and those that can be reached. Who is not enforced is forgotten."""
        for replica_id in self._health.keys() - set(enforced):
            for where in (self._health, self._out, self._returning):
                where.pop(replica_id, None)
        for replica_id in enforced:
            self._health.setdefault(replica_id, _Health())
        joins = self._is_settled(now) and self.terms.warm_seconds > 0
        for replica_id in self._health.keys() & set(connected):
            health = self._health[replica_id]
            if health.first_connected_at is not None:
                continue
            health.first_connected_at = now
            if joins:
                self._begin_share(replica_id, Service.WARMING, now)
                health.why = "it is new"
        self._connected = frozenset(connected)
        self.is_anybody_returning = bool(self._returning)

    def usable(self) -> frozenset[str]:
        """Of the connected, those that may be sent requests; all, where all are ejected."""
        return self._connected - self._out.keys() or self._connected

    def share(self, replica_id: str, now: float) -> float:
        """Of what the others get; 1 for who is in service."""
        health = self._returning.get(replica_id)
        if health is None:
            return 1.0
        terms = self.terms
        grown = min(1.0, (now - health.since) / (health.until - health.since))
        return terms.first_share + (1.0 - terms.first_share) * grown

    def shares(self, now: float) -> dict[str, float]:
        """Of each that comes back, see `share`."""
        return {replica_id: self.share(replica_id, now) for replica_id in self._returning}

    def note_sent(self, replica_id: str, key: object, now: float) -> None:
        """A request goes there; `key` tells it apart."""
        health = self._health.get(replica_id)
        if health is not None:
            health.waiting[key] = now

    def note_first_token(self, replica_id: str, key: object, now: float) -> None:
        """It selected its first token."""
        health = self._health.get(replica_id)
        if health is None or (sent_at := health.waiting.pop(key, None)) is None:
            return
        health.num_first_tokens += 1
        health.first_token_seconds += now - sent_at

    def note_end(self, replica_id: str, key: object, has_failed: bool, now: float) -> bool:
        """It ended, by the replica's failure or not. True: the replica is ejected for it."""
        health = self._health.get(replica_id)
        if health is None:
            return False
        sent_at = health.waiting.pop(key, None)
        if sent_at is not None and now - sent_at >= self.terms.min_latency_seconds:
            # Whoever gave up waiting would have waited longer still.
            health.num_first_tokens += 1
            health.first_token_seconds += now - sent_at
        health.num_ended += 1
        if not has_failed:
            health.num_consecutive = 0
            return False
        health.num_failed += 1
        health.num_consecutive += 1
        return self._judge_failures(replica_id, health, now)

    def check(self, now: float) -> bool:
        """Let back whose time is over, and look for who is slow or stands still. True: who may be
        used has changed."""
        changed = self._let_back(now)
        for replica_id, health in self._health.items():
            changed |= self._judge_latency(replica_id, health, now)
        if now >= self._window_ends:
            self._window_ends = now + self.terms.window_seconds
            for health in self._health.values():
                health.forget_half()
        return changed

    @property
    def num_waiting(self) -> int:
        """Requests that were sent and have neither a first token nor an end."""
        return sum(len(health.waiting) for health in self._health.values())

    def statuses(self, now: float) -> list[EjectionStatus]:
        """Of those that are out or returning."""
        return [
            EjectionStatus(
                replica_id=replica_id,
                service=health.service,
                why=health.why or "",
                seconds_left=max(0.0, health.until - now),
                share=0.0 if health.service is Service.EJECTED else self.share(replica_id, now),
            )
            for where in (self._out, self._returning)
            for replica_id, health in where.items()
        ]

    def ejected(self) -> dict[str, str]:
        """Who is out, and why."""
        return {replica_id: health.why or "" for replica_id, health in self._out.items()}

    def why_out(self, replica_id: str) -> str | None:
        """Why it is ejected; None: it is not."""
        health = self._out.get(replica_id)
        return None if health is None else health.why

    def _let_back(self, now: float) -> bool:
        due = [each for each, health in self._out.items() if health.until <= now]
        for replica_id in due:
            del self._out[replica_id]
            self._begin_share(replica_id, Service.RETURNING, now)
            self._health[replica_id].forget_all()
        back = [each for each, health in self._returning.items() if health.until <= now]
        for replica_id in back:
            health = self._returning.pop(replica_id)
            if health.service is Service.RETURNING:
                health.num_ejections = max(0, health.num_ejections - 1)
            health.service, health.why = Service.IN_SERVICE, None
        self.is_anybody_returning = bool(self._returning)
        return bool(due)

    def _is_settled(self, now: float) -> bool:
        """Somebody is here for a while: who comes now is new, and this place is not."""
        return any(
            health.first_connected_at is not None
            and now - health.first_connected_at >= _SETTLED_SECONDS
            for health in self._health.values()
        )

    def _begin_share(self, replica_id: str, service: Service, now: float) -> None:
        health = self._returning[replica_id] = self._health[replica_id]
        terms = self.terms
        seconds = terms.warm_seconds if service is Service.WARMING else terms.return_seconds
        health.service, health.since, health.until = service, now, now + seconds

    def _judge_failures(self, replica_id: str, health: _Health, now: float) -> bool:
        terms = self.terms
        if health.service is Service.RETURNING:
            return self._eject(replica_id, health, "it failed again while it came back", now)
        if health.num_consecutive >= terms.consecutive_failures:
            why = f"{health.num_consecutive} failures in a row"
            return self._eject(replica_id, health, why, now)
        if health.num_ended < terms.min_requests:
            return False
        share = health.num_failed / health.num_ended
        others = self._share_of_others(replica_id)
        if share < terms.failure_share or share <= 2 * others:
            return False
        why = f"{health.num_failed} of {health.num_ended} requests failed, {others:.0%} of others'"
        return self._eject(replica_id, health, why, now)

    def _share_of_others(self, replica_id: str) -> float:
        others = [each for name, each in self._health.items() if name != replica_id]
        num_ended = sum(each.num_ended for each in others)
        return sum(each.num_failed for each in others) / num_ended if num_ended else 0.0

    def _judge_latency(self, replica_id: str, health: _Health, now: float) -> bool:
        terms = self.terms
        if health.service is Service.EJECTED:
            return False
        stalled = _oldest_wait(health, now)
        is_stalled = stalled >= terms.stall_seconds
        if not is_stalled and health.num_first_tokens < terms.min_requests:
            return False
        others = self._mean_of_others(replica_id)
        if others is None:
            return False
        mean = stalled if is_stalled else health.first_token_seconds / health.num_first_tokens
        if mean <= max(terms.min_latency_seconds, terms.latency_factor * others):
            return False
        what = "a request has waited for" if is_stalled else "its first tokens take"
        why = f"{what} {mean:.3g} s, others' take {others:.3g} s"
        return self._eject(replica_id, health, why, now)

    def _mean_of_others(self, replica_id: str) -> float | None:
        others = [each for name, each in self._health.items() if name != replica_id]
        number = sum(each.num_first_tokens for each in others)
        if number < self.terms.min_requests:
            return None
        return sum(each.first_token_seconds for each in others) / number

    def _eject(self, replica_id: str, health: _Health, why: str, now: float) -> bool:
        num_out = len(self._connected & self._out.keys()) + 1
        if num_out > self.terms.max_ejected_share * len(self._connected):
            return False
        terms = self.terms
        seconds = min(terms.max_eject_seconds, terms.eject_seconds * 2**health.num_ejections)
        self._returning.pop(replica_id, None)
        self.is_anybody_returning = bool(self._returning)
        self._out[replica_id] = health
        health.service, health.why = Service.EJECTED, why
        health.since, health.until = now, now + seconds
        health.num_ejections += 1
        health.forget_all()
        return True


def _oldest_wait(health: _Health, now: float) -> float:
    return now - next(iter(health.waiting.values())) if health.waiting else 0.0
