"""Parts of a Scenario that are well written and would do nothing, or never come to an end."""

import math
from collections.abc import Iterator

from controlplane.specs.kind import nearest
from controlplane.specs.problem import Path
from controlplane.specs.quantity import format_duration
from controlplane.specs.scenario import ScenarioSpec
from controlplane.specs.scenario_traffic import ArrivalsSpec

MOST_CALLS = 100_000_000
"""That arrive in one run."""


def find_senseless(spec: ScenarioSpec) -> Iterator[tuple[Path, str]]:
    """The place of each such part, and what is wrong with it."""
    yield from _promises_to_nobody(spec)
    yield from _too_late(spec)
    yield from _too_many(spec)


def _promises_to_nobody(spec: ScenarioSpec) -> Iterator[tuple[Path, str]]:
    if spec.contract is None:
        return
    known = [of_class.name for of_class in spec.policy.classes]
    for name in spec.contract.classes:
        if name not in known:
            near = nearest(name, known)
            hint = f"; did you mean {near}?" if near else "."
            yield (
                ("spec", "contract", "classes", name),
                f"{name} is no class of the policy{hint} There are: {', '.join(known)}",
            )


def _too_late(spec: ScenarioSpec) -> Iterator[tuple[Path, str]]:
    until = format_duration(spec.duration)
    for position, arrivals in enumerate(spec.arrivals):
        if arrivals.start is not None and arrivals.start >= spec.duration:
            yield (
                ("spec", "arrivals", position, "start"),
                f"{arrivals.name} starts at {format_duration(arrivals.start)}, and requests arrive "
                f"until {until}: none would come; start earlier, or raise duration",
            )
    for position, fault in enumerate(spec.faults):
        if fault.at is not None and fault.at >= spec.duration:
            yield (
                ("spec", "faults", position, "at"),
                f"{fault.fault} begins at {format_duration(fault.at)}, and requests arrive until "
                f"{until}; let it begin earlier, or raise duration",
            )


def _too_many(spec: ScenarioSpec) -> Iterator[tuple[Path, str]]:
    numbers = [_num_expected(each, spec.duration) for each in spec.arrivals]
    whole = sum(numbers)
    if whole > MOST_CALLS:
        most = max(range(len(numbers)), key=numbers.__getitem__)
        told = f"{whole:,.0f}" if math.isfinite(whole) else "endlessly many"
        yield (
            ("spec", "arrivals", most),
            f"about {told} calls would arrive in one run, most of them of "
            f"{spec.arrivals[most].name}, and the most is {MOST_CALLS:,}; lower its rate, or "
            f"duration",
        )


def _num_expected(spec: ArrivalsSpec, duration: float) -> float:
    """Calls that begin something: without turns and retries, and none of a replay, whose file
    counts them."""
    until = duration if spec.stop is None else min(spec.stop, duration)
    seconds = max(0.0, until - (spec.start or 0.0))
    if spec.poisson is not None:
        return seconds * spec.poisson
    if spec.bursts is not None:
        return seconds * spec.bursts.rate * spec.bursts.mean_size
    if spec.every is not None:
        return seconds / spec.every if spec.every else math.inf
    return 0.0
