"""Faults of who does the work: one replica gets most of it, phases have the wrong number of units,
what goes between them is bounded, a draft model no longer agrees."""

from collections.abc import Mapping
from dataclasses import dataclass

from dataplane.simulation.faults.fault import Fault, ReplicaFault
from dataplane.simulation.link import Link
from dataplane.simulation.phase_split import Phase, PhaseSplit
from dataplane.simulation.timeline import Action, Timeline

UNBOUNDED_SLOTS = 1_000_000
"""What stands for the slots of a replica that names no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StickyRouting(ReplicaFault):
    """The router takes the share `intensity` of every other replica's slots for held.

    So `replica` gets what comes until it is as full as the others seem to be; at intensity 1
    the others get nothing. Without a `replica` it is the first by id.
    """

    def believed_held(self, slots: Mapping[str, int | None]) -> dict[str, int]:
        """By replica id: slots that seem to be held by somebody else."""
        favourite = self.replica if self.replica in slots else min(slots, default=None)
        share = min(1.0, self.intensity)
        return {
            replica_id: round(share * (UNBOUNDED_SLOTS if num_slots is None else num_slots))
            for replica_id, num_slots in slots.items()
            if replica_id != favourite
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferLimit(Fault):
    """A link carries 1 / (1 + intensity) of what it did."""

    def install(self, timeline: Timeline, link: Link) -> None:
        """Narrow the link while it lasts."""
        factor = 1 + self.intensity
        _at(timeline, self.at, lambda: link.set_bandwidth(link.bits_per_second / factor))
        if self.duration is not None:
            _at(timeline, self.ends_at, lambda: link.set_bandwidth(link.bits_per_second * factor))


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftDisagreement(ReplicaFault):
    """Drafts are accepted less often, by the share `intensity`: the draft model is of another
    version, or the traffic of another kind."""

    @property
    def share_kept(self) -> float:
        """Of the acceptance, while it lasts."""
        return max(0.0, 1 - self.intensity)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongPhaseSplit(Fault):
    """The share `intensity` of the units of one phase do the other phase's work."""

    short: Phase | None = None
    """The phase that loses them; None: the one that has more."""

    def split(self, planned: PhaseSplit) -> PhaseSplit:
        """What is there instead; one unit of each phase is left."""
        short = self.short
        if short is None:
            short = Phase.DECODE if planned.decode >= planned.prefill else Phase.PREFILL
        num_units = planned.decode if short is Phase.DECODE else planned.prefill
        num_moved = min(num_units - 1, round(num_units * self.intensity))
        if short is Phase.DECODE:
            num_moved = -num_moved
        return PhaseSplit(prefill=planned.prefill - num_moved, decode=planned.decode + num_moved)


def _at(timeline: Timeline, when: float, action: Action) -> None:
    """What should have happened happens now."""
    timeline.at(max(when, timeline.now), action)
