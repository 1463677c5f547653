"""Has things happen at the same moment: all times of a random fleet are multiples of an eighth.

Steps end while requests arrive, faults begin and processes die; what comes first then is the
order in which it was put, and must be the same whoever looks on.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from dataplane.simulation.arrivals import ArrivalProcess
from dataplane.simulation.cold_start import ColdStart
from dataplane.simulation.cost import LinearCost
from dataplane.simulation.distributions import Constant
from dataplane.simulation.fleet_scenario import FleetScenario
from dataplane.simulation.gateway_overheads import OverheadPlan

_STEP = 0.125
"""Seconds: multiples of it are exact."""


def snap(seconds: float) -> float:
    """The nearest multiple."""
    return round(seconds / _STEP) * _STEP


@dataclass(frozen=True, slots=True)
class Snapped:
    """An ArrivalProcess on the grid; many arrive at once."""

    process: ArrivalProcess

    def times(self, stream: random.Random) -> Iterator[float]:
        """As those of the other, in the same order."""
        return map(snap, self.process.times(stream))


def snapped(scenario: FleetScenario) -> FleetScenario:
    """The same fleet on the grid: steps of equal length, and starts and overheads likewise."""
    return replace(
        scenario,
        replicas=tuple(
            replace(
                spec,
                cost=LinearCost(iteration=_STEP, per_prompt_token=0, per_decode_step=0),
                cold_start=ColdStart(load=1.0, warm_up=_STEP),
                starts_at=None if spec.starts_at is None else snap(spec.starts_at),
            )
            for spec in scenario.replicas
        ),
        traffic=tuple(replace(spec, process=Snapped(spec.process)) for spec in scenario.traffic),
        overheads=None
        if scenario.overheads is None
        else OverheadPlan(
            before_admission=Constant(_STEP),
            before_submission=Constant(_STEP),
            before_first_write=Constant(0.0),
            before_last_write=Constant(_STEP),
        ),
    )
