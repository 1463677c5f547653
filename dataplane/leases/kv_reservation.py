"""Blocks of KV cache that requests are expected to need, reserved replica by replica.

An engine's own ledger says how many blocks it has and how many are referenced; it cannot say
what its requests will still grow to. A gateway knows what it sent there, and reserves for each
what it has now (`none`), what it is expected to come to (`expected`) or the most that it may
(`full`). The share that is the watermark is reserved for nobody::

    blocks of a replica   | reserved here | referenced beyond that | wanted | ... | watermark |

What the engine references beyond what was reserved for what it had then is somebody else's, and
counts until it says more; what it said too long ago is not used, and then the reservations of
this gateway alone count, and the answer says so. Of an engine that does not show its blocks nobody
can tell: it refuses nobody here, and the answer says that too.

A request that needs more than there is at all goes to a replica of which nothing is taken: it
would otherwise wait for ever.
"""

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass
from enum import StrEnum

from dataplane.clock import MonotonicClock
from dataplane.engine import EngineStats
from dataplane.leases.lease import Lease
from dataplane.leases.output_lengths import ExpectedOutput
from dataplane.ledger import num_blocks_for
from dataplane.policy import KVLimits, KVReserve

STALE_SECONDS = 5.0
"""What an engine said longer ago is not used: it is asked every second."""


class KVSignal(StrEnum):
    """What an answer rests on."""

    ENGINE = "engine"
    """Its ledger, beside what is reserved."""
    OWN_COUNTS = "own_counts"
    """What it said is too old: this gateway's reservations alone."""
    CANNOT_TELL = "cannot_tell"
    """It does not show its blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KVSight:
    """One replica's blocks as its engine told them, at `told_at` on the gateway's clock."""

    num_blocks: int
    block_size: int
    """Tokens of a block."""
    num_referenced_blocks: int | None
    """None: it says how many it has, and not how many are in use."""
    told_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KVDemand:
    """What one request wants, in tokens."""

    num_prompt_tokens: int
    num_output_tokens: int
    """Of each sequence: what is reserved for its output; 0 where only what it has now is."""
    num_sequences: int = 1
    """They share the whole blocks of the prompt."""
    watermark: float = 0.0
    """Share of a replica's blocks that it leaves free."""
    doubt: str | None = None
    """Why the output is reserved at its maximum where it was to be expected; None: it is not."""

    def num_blocks(self, block_size: int) -> int:
        """Blocks of that size for all of it."""
        of_one = num_blocks_for(self.num_prompt_tokens + self.num_output_tokens, block_size)
        return of_one + (self.num_sequences - 1) * (of_one - self.num_prompt_tokens // block_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class KVRoom:
    """Whether a request fits on one replica, and what says so. Counts in blocks."""

    replica_id: str
    fits: bool
    signal: KVSignal
    num_wanted: int | None = None
    num_committed: int | None = None
    """Reserved, or referenced where that is more."""
    num_usable: int | None = None
    """All but the watermark."""
    age_seconds: float | None = None
    """Of what the engine said, used or not."""

    @property
    def reason(self) -> str:
        """In words."""
        if self.signal is KVSignal.CANNOT_TELL:
            return f"cannot tell: {self.replica_id} does not show its KV blocks"
        said = f"{self.num_wanted} blocks wanted, {self.num_committed} of {self.num_usable} taken"
        if self.signal is KVSignal.OWN_COUNTS:
            return f"{said}, by this gateway's own counts: what {self.replica_id} said is too old"
        return said


def sight_of(stats: EngineStats, now: float) -> KVSight | None:
    """What an engine told, at `now`; None: it does not show its blocks."""
    if stats.num_blocks is None or stats.block_size is None:
        return None
    referenced = stats.num_referenced_blocks
    if referenced is None and stats.num_free_blocks is not None:
        referenced = stats.num_blocks - stats.num_free_blocks
    return KVSight(
        num_blocks=stats.num_blocks,
        block_size=stats.block_size,
        num_referenced_blocks=referenced,
        told_at=now - stats.age_seconds,
    )


def demand_of(
    limits: KVLimits | None,
    num_prompt_tokens: int,
    num_sequences: int,
    max_output_tokens: int,
    expected: ExpectedOutput,
) -> KVDemand | None:
    """What a policy has reserved for a request; None: nothing. `expected` is of one sequence, by
    the policy's quantile."""
    if limits is None:
        return None
    num_output = {
        KVReserve.NONE: 0,
        KVReserve.EXPECTED: min(expected.num_tokens, max_output_tokens),
        KVReserve.FULL: max_output_tokens,
    }[limits.reserve]
    in_doubt = limits.reserve is KVReserve.EXPECTED and not expected.is_known
    return KVDemand(
        num_prompt_tokens=num_prompt_tokens,
        num_output_tokens=num_output,
        num_sequences=num_sequences,
        watermark=limits.watermark,
        doubt=expected.reason if in_doubt else None,
    )


class KVReservations:
    """Of the replicas of one deployment. A lease ends with its request, or with its replica."""

    def __init__(self, clock: MonotonicClock, stale_seconds: float = STALE_SECONDS) -> None:
        self._clock = clock
        self._stale_seconds = stale_seconds
        self._replicas: dict[str, _Replica] = {}

    def see(self, replica_id: str, sight: KVSight | None) -> None:
        """What its engine said last; None: it does not show its blocks."""
        self._replica(replica_id).see(sight)

    def lose(self, replica_id: str) -> None:
        """The replica is gone with all that it held: its leases are worth nothing any more."""
        lost = self._replicas.pop(replica_id, None)
        if lost is not None:
            lost.lose()

    def keep_only(self, replica_ids: Set[str]) -> None:
        """All others are gone."""
        for replica_id in self._replicas.keys() - replica_ids:
            self.lose(replica_id)

    def room(self, replica_id: str, demand: KVDemand) -> KVRoom:
        """Whether it fits there now."""
        replica = self._replicas.get(replica_id)
        if replica is None:
            return KVRoom(replica_id=replica_id, fits=True, signal=KVSignal.CANNOT_TELL)
        return replica.room(demand, self._clock(), self._stale_seconds)

    def take(self, replica_id: str, demand: KVDemand) -> Lease:
        """Reserve for a request that goes there, whether it fits or not."""
        return self._replica(replica_id).take(demand, self._clock())

    def try_take(self, replica_id: str, demand: KVDemand) -> Lease | KVRoom:
        """Reserve where it fits; else why it does not."""
        room = self.room(replica_id, demand)
        return self.take(replica_id, demand) if room.fits else room

    def num_reserved(self, replica_id: str) -> int:
        """Blocks that leases hold there; 0 where their size is not known."""
        replica = self._replicas.get(replica_id)
        return 0 if replica is None else replica.num_reserved

    def reserved_by_replica(self) -> Mapping[str, int]:
        """Of those of which anything is."""
        return {i: r.num_reserved for i, r in self._replicas.items() if r.num_reserved}

    @property
    def num_leases(self) -> int:
        """Requests for which something is reserved, also where it cannot be counted in blocks."""
        return sum(replica.num_leases for replica in self._replicas.values())

    def check_integrity(self) -> None:
        """Raises AssertionError when blocks are counted that no lease holds."""
        for replica in self._replicas.values():
            replica.check_integrity()

    def _replica(self, replica_id: str) -> "_Replica":
        replica = self._replicas.get(replica_id)
        if replica is None:
            replica = self._replicas[replica_id] = _Replica(replica_id)
        return replica


@dataclass(slots=True, eq=False)
class _Held:
    demand: KVDemand
    taken_at: float
    num_blocks: int


class _Replica:
    """Leases are kept as what was asked for: blocks can be counted once their size is known."""

    def __init__(self, replica_id: str) -> None:
        self.num_reserved = 0
        self._replica_id = replica_id
        self._sight: KVSight | None = None
        self._held: dict[int, _Held] = {}
        self._next_key = 0
        self._num_foreign = 0  # referenced beyond what was reserved for what the engine had

    @property
    def num_leases(self) -> int:
        return len(self._held)

    def see(self, sight: KVSight | None) -> None:
        was, self._sight = self._sight, sight
        size = None if sight is None else sight.block_size
        if size != (None if was is None else was.block_size):
            for held in self._held.values():
                held.num_blocks = 0 if size is None else held.demand.num_blocks(size)
            self.num_reserved = sum(held.num_blocks for held in self._held.values())
        self._num_foreign = 0
        if sight is not None and sight.num_referenced_blocks is not None:
            told_of = (h.num_blocks for h in self._held.values() if h.taken_at < sight.told_at)
            self._num_foreign = max(0, sight.num_referenced_blocks - sum(told_of))

    def lose(self) -> None:
        self._held.clear()
        self.num_reserved = 0

    def room(self, demand: KVDemand, now: float, stale_seconds: float) -> KVRoom:
        sight = self._sight
        if sight is None:
            return KVRoom(replica_id=self._replica_id, fits=True, signal=KVSignal.CANNOT_TELL)
        age = now - sight.told_at
        is_told = sight.num_referenced_blocks is not None and age <= stale_seconds
        committed = self.num_reserved + (self._num_foreign if is_told else 0)
        usable = math.floor(sight.num_blocks * (1 - demand.watermark))
        wanted = demand.num_blocks(sight.block_size)
        return KVRoom(
            replica_id=self._replica_id,
            fits=committed + min(wanted, usable) <= usable,
            signal=KVSignal.ENGINE if is_told else KVSignal.OWN_COUNTS,
            num_wanted=wanted,
            num_committed=committed,
            num_usable=usable,
            age_seconds=age,
        )

    def take(self, demand: KVDemand, now: float) -> Lease:
        size = None if self._sight is None else self._sight.block_size
        held = _Held(demand, now, 0 if size is None else demand.num_blocks(size))
        key = self._next_key
        self._next_key += 1
        self._held[key] = held
        self.num_reserved += held.num_blocks
        return Lease(lambda: self._give_back(key))

    def check_integrity(self) -> None:
        held = sum(each.num_blocks for each in self._held.values())
        if held != self.num_reserved:
            raise AssertionError(
                f"{self._replica_id}: leases hold {held} blocks, {self.num_reserved} are counted"
            )

    def _give_back(self, key: int) -> None:
        held = self._held.pop(key, None)
        if held is not None:  # else the replica is gone
            self.num_reserved -= held.num_blocks
