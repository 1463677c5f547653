"""One random fleet with all that happens to it, by its number; parts of it can be left out::

RandomCase(number=17)                                       what `case_run` runs, and looks at
RandomCase(number=17, without=frozenset({"strikes"}))       the same, and nobody strikes it
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from dataplane.policy import QueueLimits, RoutingTerms
from dataplane.simulation.clients import PATIENT
from dataplane.simulation.faults.fault import Fault
from dataplane.simulation.fleet_scenario import FleetScenario
from dataplane.simulation.observer.dialect import Dialect
from dataplane.simulation.observer.dialects import DIALECTS
from ops.endurance.random_faults import NEED_LINK, NEED_SPECULATION, kinds_of, random_faults
from ops.endurance.random_scenario import CLASSES, DURATION, random_scenario
from ops.endurance.random_traffic import TENANTS
from ops.endurance.time_grid import snap, snapped

_Leave = Callable[[FleetScenario], FleetScenario]
_LONGEST_DRAIN = 760
"""Seconds. Nothing moves any more in a fleet that takes longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomCase:
    """Scenario `number`, without the parts that are named. Each part says what it leaves out."""

    number: int
    without: frozenset[str] = field(default_factory=frozenset)

    def parts(self) -> list[str]:
        """What is in it, and can be left out."""
        scenario = self.scenario()
        faults = [f"fault-{place}" for place, _ in enumerate(self._all_faults(), 1)]
        others = {"strikes": self.is_struck, "exporters": True, "grid": self.is_on_grid}
        traffic = [f"traffic-{spec.name}" for spec in scenario.traffic][1:]
        leaves = [part for part, leave in _LEAVES.items() if leave(scenario) != scenario]
        found = [*faults, *(part for part, is_in in others.items() if is_in), *traffic, *leaves]
        return [part for part in found if part not in self.without]

    def scenario(self) -> FleetScenario:
        """Made anew: what some costs count, and links carry, is of one run."""
        scenario = self._all_of_scenario()
        if self.is_on_grid:
            scenario = snapped(scenario)
        for part, leave in _LEAVES.items():
            if part in self.without:
                scenario = leave(scenario)
        kept = [each for each in scenario.traffic if f"traffic-{each.name}" not in self.without]
        return replace(scenario, traffic=tuple(kept))

    def faults(self) -> tuple[Fault, ...]:
        """What goes wrong."""
        return tuple(
            _snapped(fault) if self.is_on_grid else fault
            for place, fault in enumerate(self._all_faults(), 1)
            if f"fault-{place}" not in self.without
        )

    @property
    def is_on_grid(self) -> bool:
        """All times are multiples of one: of every fourth, but where a fault needs otherwise."""
        draw = random.Random(f"grid of {self.number}")
        needs_own = (NEED_SPECULATION | NEED_LINK).intersection(kinds_of(self.number))
        return draw.random() < 1 / 4 and not needs_own and "grid" not in self.without

    def snap(self, seconds: float) -> float:
        """When something happens that was drawn for this moment."""
        return snap(seconds) if self.is_on_grid else seconds

    @property
    def is_struck(self) -> bool:
        """Its replicas stall, drain and die besides; of every third one they do not, but where no
        fault is of it."""
        draw = random.Random(f"whether {self.number} is struck")
        is_calm = draw.random() < 1 / 3 and kinds_of(self.number)
        return not is_calm and "strikes" not in self.without

    def dialect_of(self, replica_id: str) -> Dialect:
        """What a replica speaks."""
        draw = random.Random(f"dialect of {replica_id} in {self.number}")
        return draw.choice(list(DIALECTS.values()))

    def scrape_seconds(self) -> float:
        """From one scrape to the next."""
        return random.Random(f"scrapes of {self.number}").uniform(0.5, 3)

    def moments(self) -> list[float]:
        """At which somebody looks: a random one of each second."""
        draw = random.Random(f"moments of {self.number}")
        return [second + draw.random() for second in range(int(DURATION) + _LONGEST_DRAIN)]

    def _all_of_scenario(self) -> FleetScenario:
        return random_scenario(self.number, kinds_of(self.number))

    def _all_faults(self) -> tuple[Fault, ...]:
        scenario = self._all_of_scenario()
        return random_faults(
            self.number,
            until=DURATION,
            replicas=[spec.replica_id for spec in scenario.replicas],
            tenants=TENANTS,
            classes=CLASSES,
        )


def _snapped(fault: Fault) -> Fault:
    duration = None if fault.duration is None else snap(fault.duration)
    return replace(fault, at=snap(fault.at), duration=duration)


def _without_turns(scenario: FleetScenario) -> FleetScenario:
    return _each_traffic(scenario, turns=None)


def _without_answers(scenario: FleetScenario) -> FleetScenario:
    return _each_traffic(scenario, num_sequences=None)


def _without_prefixes(scenario: FleetScenario) -> FleetScenario:
    return _each_traffic(scenario, prefixes=None)


def _without_impatience(scenario: FleetScenario) -> FleetScenario:
    """All clients wait, read at once, and never come again."""
    traffic = (
        replace(
            spec,
            callers=[(replace(caller, client=PATIENT), weight) for caller, weight in spec.callers],
        )
        for spec in scenario.traffic
    )
    return replace(scenario, traffic=tuple(traffic))


def _each_traffic(scenario: FleetScenario, **changes: None) -> FleetScenario:
    traffic = (replace(spec, **changes) for spec in scenario.traffic)  # type: ignore[arg-type]
    return replace(scenario, traffic=tuple(traffic))


def _without_starts(scenario: FleetScenario) -> FleetScenario:
    """All replicas serve from the beginning."""
    replicas = (replace(spec, starts_at=None) for spec in scenario.replicas)
    return replace(scenario, replicas=tuple(replicas))


def _without_terms(**without: Any) -> _Leave:
    """Policies that ask less."""
    return lambda scenario: replace(scenario, policy=replace(scenario.policy, **without))


def _without_urgency(scenario: FleetScenario) -> FleetScenario:
    """Classes that promise no first token, and do not age."""
    less = {"first_token_seconds": None, "aging_per_second": 0.0}
    classes = tuple(replace(each, **less) for each in scenario.policy.classes)  # type: ignore[arg-type]
    return replace(scenario, policy=replace(scenario.policy, classes=classes))


_LEAVES: dict[str, _Leave] = {
    "routing": _without_terms(routing=RoutingTerms()),
    "overload": _without_terms(overload=None),
    "tenants": _without_terms(tenants={}),
    "kv": _without_terms(kv=None),
    "bounds": _without_terms(queue=QueueLimits(), max_prompt_tokens_in_flight=None),
    "tpot": _without_terms(tpot_seconds=None),
    "urgency": _without_urgency,
    "phases": partial(replace, phases=None),
    "overheads": partial(replace, overheads=None),
    "contract": partial(replace, contract=None),
    "gateways": partial(replace, num_gateways=1),
    "turns": _without_turns,
    "answers": _without_answers,
    "prefixes": _without_prefixes,
    "impatience": _without_impatience,
    "starts": _without_starts,
}
