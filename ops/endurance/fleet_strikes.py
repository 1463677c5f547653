"""What happens to the replicas of a random fleet, besides its faults: they stall, drain, die, and
are started again; phases and their link change.
"""

import random
from collections.abc import Callable
from functools import partial

from dataplane.simulation.fleet import Fleet
from dataplane.simulation.phase_split import PhaseSplit
from dataplane.simulation.phased_replicas import PhasedReplicas
from ops.endurance.random_scenario import DURATION

Snap = Callable[[float], float]
"""The moment at which what was drawn for another one happens."""
ENDS_AT = DURATION + 5
"""Whatever was done to a replica, by then it goes on, or is started."""


def strike(fleet: Fleet, number: int, snap: Snap = float) -> None:
    """Put on the timeline what happens to the replicas of scenario `number`, each at a moment that
    `snap` gives."""
    draw = random.Random(f"strikes of {number}")
    for replica in fleet.replicas.values():
        at = 0.0
        while (at := at + draw.expovariate(0.12)) < DURATION:
            blow: Callable[[], object] = draw.choice(
                (partial(replica.kill, "it was killed"), replica.stall, replica.drain)
            )
            fleet.timeline.at(snap(at), blow)
            fleet.timeline.at(snap(at + draw.uniform(0, 5)), replica.resume)
            fleet.timeline.at(snap(at + draw.uniform(0, 5)), replica.start)
        fleet.timeline.at(ENDS_AT, replica.resume)
        fleet.timeline.at(ENDS_AT, replica.start)
    if fleet.phases is not None:
        _strike_phases(fleet, fleet.phases, draw, snap)


def _strike_phases(fleet: Fleet, phases: PhasedReplicas, draw: random.Random, snap: Snap) -> None:
    """Its link narrows, and replicas change their phase."""
    num_replicas = len(fleet.replicas)
    for at in (draw.uniform(0, DURATION), draw.uniform(0, DURATION)):
        bandwidth = phases.plan.bits_per_second / draw.uniform(1, 6)
        fleet.timeline.at(snap(at), partial(phases.link.set_bandwidth, bandwidth))
        prefill = draw.randint(1, num_replicas - 1)
        split = PhaseSplit(prefill=prefill, decode=num_replicas - prefill)
        fleet.timeline.at(snap(at + draw.uniform(0, 5)), partial(fleet.set_split, split))
    plain = partial(phases.link.set_bandwidth, phases.plan.bits_per_second)
    fleet.timeline.at(ENDS_AT, plain)
