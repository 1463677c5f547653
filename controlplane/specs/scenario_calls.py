"""About how many calls a Scenario has arrive, before any is made: first ones, later turns of their
conversations, and those that a flooding tenant adds. Not those of a replay, whose file counts them,
and no retries, which depend on what becomes of the others.
"""

import math

from controlplane.specs.faults.traffic import TenantFloodSpec
from controlplane.specs.scenario import ScenarioSpec
from controlplane.specs.scenario_traffic import ArrivalsSpec, LengthSpec, TurnsSpec, WaitSpec


def num_expected_calls(spec: ScenarioSpec) -> list[float]:
    """Of each kind of traffic, in their order; infinity for one that comes without a pause."""
    floods = [fault for fault in spec.faults if isinstance(fault, TenantFloodSpec)]
    return [_num_expected(each, spec.duration, floods) for each in spec.arrivals]


def _num_expected(arrivals: ArrivalsSpec, duration: float, floods: list[TenantFloodSpec]) -> float:
    starts_at = min(arrivals.start or 0.0, duration)
    ends_at = duration if arrivals.stop is None else min(arrivals.stop, duration)
    rate = _rate(arrivals)
    if not rate or ends_at <= starts_at:
        return 0.0
    added = sum(
        _share_of_time(flood, starts_at, ends_at) * _times(flood, arrivals) for flood in floods
    )
    seconds_left = duration - (starts_at + ends_at) / 2  # for the turns of one, on average
    return (ends_at - starts_at) * rate * (1 + added) * _num_turns(arrivals.turns, seconds_left)


def _rate(arrivals: ArrivalsSpec) -> float:
    """First calls a second."""
    if arrivals.poisson is not None:
        return arrivals.poisson
    if arrivals.bursts is not None:
        return arrivals.bursts.rate * arrivals.bursts.mean_size
    if arrivals.every is not None:
        return 1 / arrivals.every if arrivals.every else math.inf
    return 0.0


def _num_turns(turns: TurnsSpec | None, seconds_left: float) -> float:
    """Of a conversation: as many as it has, or as there is time for between its answers."""
    if turns is None:
        return 1.0
    wait = _typical_wait(turns.wait)
    most = 1 + seconds_left / wait if wait else math.inf
    return min(_typical_length(turns.count), most)


def _share_of_time(flood: TenantFloodSpec, starts_at: float, ends_at: float) -> float:
    begins = max(flood.at or 0.0, starts_at)
    ends = ends_at if flood.lasts is None else min((flood.at or 0.0) + flood.lasts, ends_at)
    return max(0.0, ends - begins) / (ends_at - starts_at)


def _times(flood: TenantFloodSpec, arrivals: ArrivalsSpec) -> float:
    """How many more calls come for each; of which class they are is not known here."""
    weights = arrivals.tenants
    whose = flood.tenants or tuple(weights)
    of_tenants = sum(weights.get(name, 0.0) for name in whose) / sum(weights.values())
    return flood.intensity * flood.share * of_tenants


def _typical_length(spec: LengthSpec) -> float:
    if spec.seen is not None:
        return sum(spec.seen) / len(spec.seen)
    if spec.at_least is not None and spec.at_most is not None:
        return (spec.at_least + spec.at_most) / 2
    return float(spec.constant or spec.median or 1)


def _typical_wait(spec: WaitSpec) -> float:
    return spec.constant or spec.mean or spec.median or 0.0
