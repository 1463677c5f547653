"""Faults of a replica's KV memory: less of it than planned, taken for a while, never given back."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from dataplane.scheduling.block_pool import BlockPool
from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.scheduling.scheduler import Scheduler
from dataplane.scheduling.sequence import Sequence
from dataplane.simulation.faults.fault import ReplicaFault
from dataplane.simulation.timeline import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallerMemory(ReplicaFault):
    """The share `intensity` of the planned blocks is missing, or of those that other shortages
    leave; at least one block is left.

    A process that starts while it lasts has so many fewer, and says so. From one that runs
    they are taken as they become free: newer sequences are preempted until they all are.
    """

    def num_missing(self, num_blocks: int) -> int:
        """Blocks that are not there."""
        return min(num_blocks - 1, round(num_blocks * self.intensity))

    def shrink(self, config: SchedulerConfig) -> SchedulerConfig:
        """The bounds of a process that starts with it."""
        num_blocks = config.num_blocks - self.num_missing(config.num_blocks)
        return replace(config, num_blocks=num_blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceSpike(ReplicaFault):
    """The share `intensity` of all blocks is needed for something else while it lasts.

    Blocks that nobody references are taken, cached ones too. Where that is not enough the
    process is out of memory and dies.
    """

    def num_wanted(self, num_blocks: int) -> int:
        """Blocks that it needs; more than there are, from intensity 1 on."""
        return math.ceil(num_blocks * self.intensity)


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelLeak(ReplicaFault):
    """The share `intensity` of cancelled sequences leave their blocks taken until a restart."""

    def leaks(self, sequence: Sequence) -> bool:
        """Whether this one does. Drawn by its request."""
        return self.hits(sequence.request_id, sequence.index)


class MemoryOwner(Protocol):
    """The process whose memory it is."""

    def wake(self) -> None:
        """Look again whether something can run: blocks came back."""
        ...

    def run_out_of_memory(self, num_wanted: int) -> None:
        """Die: `num_wanted` blocks' worth was needed and was not there."""
        ...


class FaultyMemory:
    """What the memory faults do to one process, from its start until it ends.

    Its `step_ended` belongs behind every step: only there can be taken what became free.
    """

    def __init__(
        self,
        timeline: Timeline,
        scheduler: Scheduler,
        owner: MemoryOwner,
        shortages: list[SmallerMemory],
        spikes: list[WorkspaceSpike],
        leaks: list[CancelLeak],
    ) -> None:
        """Puts what is to come on the timeline. `shortages` are those that began later."""
        self._timeline = timeline
        self._pool: BlockPool = scheduler.pool
        self._owner = owner
        self._leaks = leaks
        self._is_ended = False
        self._num_owed = 0
        self._taken: list[int] = []
        self.leaked: set[int] = set()
        """Sequence ids whose blocks stay taken: they are finished, and never released."""
        for shortage in shortages:
            self._put(shortage.at, partial(self._owe, shortage))
        for spike in spikes:
            self._put(spike.at, partial(self._spike, spike))

    def end(self) -> None:
        """The process is gone; nothing more is done to it."""
        self._is_ended = True

    def cancelled(self, sequence: Sequence) -> bool:
        """A sequence was cancelled; whether its blocks leak. One that has none leaves none: it
        waited. Call it before they are released."""
        now = self._timeline.now
        if not sequence.block_table or not any(
            leak.is_active(now) and leak.leaks(sequence) for leak in self._leaks
        ):
            return False
        self._pool.hold(sequence.block_table)
        self.leaked.add(sequence.sequence_id)
        return True

    def step_ended(self) -> None:
        """Take what is owed, as far as it is free."""
        if self._num_owed:
            self._take()

    def _put(self, at: float, action: Callable[[], None]) -> None:
        if at >= self._timeline.now:
            self._timeline.at(at, lambda: None if self._is_ended else action())

    def _owe(self, shortage: SmallerMemory) -> None:
        # Of what others have left: of several too, one block stays.
        num_left = self._pool.num_blocks - self._num_owed - len(self._taken)
        num_blocks = shortage.num_missing(num_left)
        self._num_owed += num_blocks
        self._take()
        if shortage.duration is not None:
            self._put(shortage.ends_at, lambda: self._give(num_blocks))

    def _take(self) -> None:
        taken = self._pool.lend(min(self._num_owed, self._pool.num_free)) or []
        self._taken += taken
        self._num_owed -= len(taken)

    def _give(self, num_blocks: int) -> None:
        not_taken = min(num_blocks, self._num_owed)
        self._num_owed -= not_taken
        num_back = num_blocks - not_taken
        if num_back:
            back, self._taken = self._taken[-num_back:], self._taken[:-num_back]
            self._pool.take_back(back)
        self._owner.wake()

    def _spike(self, spike: WorkspaceSpike) -> None:
        num_wanted = spike.num_wanted(self._pool.num_blocks)
        taken = self._pool.lend(num_wanted)
        if taken is None:
            self._owner.run_out_of_memory(num_wanted)
        elif spike.duration is not None:
            self._put(spike.ends_at, lambda: self._end_spike(taken))

    def _end_spike(self, taken: list[int]) -> None:
        self._pool.take_back(taken)
        self._owner.wake()
