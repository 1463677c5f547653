"""Parts of a Scenario that are well written and would do nothing, or never come to an end."""

import math
from collections.abc import Iterator

from controlplane.specs.kind import nearest
from controlplane.specs.problem import Path
from controlplane.specs.quantity import format_duration
from controlplane.specs.scenario import ScenarioSpec
from controlplane.specs.scenario_calls import num_expected_calls
from dataplane.routing.builtin import BUILTIN_POLICIES

MOST_CALLS = 100_000_000
"""That arrive in one run."""


def find_senseless(spec: ScenarioSpec) -> Iterator[tuple[Path, str]]:
    """The place of each such part, and what is wrong with it."""
    yield from _promises_to_nobody(spec)
    yield from _falls_back_to_nothing(spec)
    yield from _is_routed_by_a_plugin(spec)
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


def _falls_back_to_nothing(spec: ScenarioSpec) -> Iterator[tuple[Path, str]]:
    overload = spec.policy.overload
    if overload is None or overload.degrade is None or overload.degrade.fallback is None:
        return
    yield (
        ("spec", "policy", "overload", "degrade", "fallback"),
        "a Scenario has one deployment: nothing could ever fall back to "
        f"{overload.degrade.fallback}; leave it out",
    )


def _is_routed_by_a_plugin(spec: ScenarioSpec) -> Iterator[tuple[Path, str]]:
    routing = spec.policy.routing
    if routing is not None and routing.policy not in BUILTIN_POLICIES:
        near = nearest(routing.policy, BUILTIN_POLICIES)
        hint = f"; did you mean {near}?" if near else "."
        yield (
            ("spec", "policy", "routing", "policy"),
            f"simulated gateways route by the policies that come with Pilothouse{hint} "
            f"There are: {', '.join(BUILTIN_POLICIES)}",
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
    numbers = num_expected_calls(spec)
    whole = sum(numbers)
    if whole > MOST_CALLS:
        most = max(range(len(numbers)), key=numbers.__getitem__)
        told = f"{whole:,.0f}" if math.isfinite(whole) else "endlessly many"
        yield (
            ("spec", "arrivals", most),
            f"about {told} calls would arrive in one run, later turns and those of a flood "
            f"included, most of them of {spec.arrivals[most].name}, and the most is "
            f"{MOST_CALLS:,}; lower its rate, its turns, the intensity of a flood, or duration",
        )
