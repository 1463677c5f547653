"""What is offered to which fleet: the scenario of ops/examples/overload, harder or easier.

The fleet, its fitted costs, the contract and who calls are the file's. A shape changes how calls
come or how long they are, a factor how many; the policy is whoever's turn it is. Everything is
made anew for each run: what costs draw is of one run.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from controlplane.specs.documents import load_documents
from controlplane.specs.enforced import admission_terms
from controlplane.specs.policy import AdmissionPolicySpec
from controlplane.specs.scenario_compiling import read_scenario
from controlplane.specs.source import Source
from controlplane.specs.yaml_reader import read_yaml
from dataplane.policy import AdmissionPolicyTerms
from dataplane.simulation.arrivals import Bursts, Poisson
from dataplane.simulation.distributions import LogNormal
from dataplane.simulation.fleet_scenario import FleetScenario
from dataplane.simulation.traffic import TrafficSpec

EXAMPLES = Path(__file__).parents[1] / "examples" / "overload"
SCENARIO = EXAMPLES / "scenario.yaml"
POLICY = EXAMPLES / "start-here.yaml"
INTERACTIVE = "chat"
"""The arrivals of the scenario that shapes change."""
_BURST_SIZE = 24.0
_BURST_SECONDS = 1.5
_LONG = LogNormal(median=180, sigma=0.7, most=1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """One run, but for its policy."""

    shape: str
    requests_per_second: float
    """Of all classes; their shares are the scenario's."""
    seed: int
    counted_seconds: float
    """Requests that arrive for so long are counted."""
    counts_from: float = 90.0
    """Requests before that settle what is learned, and fill the queue."""
    last_seconds: float = 120.0
    """Behind those that are counted as many more arrive: who waits has none of it easier."""

    @property
    def seconds(self) -> float:
        """How long requests arrive."""
        return self.counts_from + self.counted_seconds + self.last_seconds


def make_scenario(conditions: Conditions, policy: AdmissionPolicyTerms) -> FleetScenario:
    """The fleet of a run."""
    source = _read_source()
    data: dict[str, Any] = dict(source.data)
    data["spec"] = dict(data["spec"], seed=conditions.seed)
    document, problems = read_scenario(replace(source, data=data), SCENARIO.parent)
    if document is None:
        raise ValueError("; ".join(map(str, problems)))
    fleet = document.fleet
    rates = [_rate_of(spec) for spec in fleet.traffic]
    factor = conditions.requests_per_second / sum(rates)
    change = SHAPES[conditions.shape]
    traffic = tuple(
        change(spec, factor * rate) for spec, rate in zip(fleet.traffic, rates, strict=True)
    )
    return replace(fleet, policy=policy, traffic=traffic, duration=conditions.seconds)


@cache
def adaptive_terms() -> AdmissionPolicyTerms:
    """The policy document of the examples."""
    loaded = load_documents([(POLICY.name, POLICY.read_text())])
    if loaded.problems:
        raise ValueError("; ".join(map(str, loaded.problems)))
    [document] = loaded.documents
    assert isinstance(document.spec, AdmissionPolicySpec)
    return admission_terms(f"{document.name}@1", document.spec)


def static_terms(max_active: int, max_queue: int) -> AdmissionPolicyTerms:
    """Limits that know nothing of time: the same classes, first by priority, and so many of each
    may wait. Nobody is refused for a deadline, raised by waiting, shed or degraded."""
    adaptive = adaptive_terms()
    return AdmissionPolicyTerms(
        revision=f"static-{max_active}-{max_queue}@1",
        classes=tuple(
            replace(
                each,
                deadline_seconds=None,
                first_token_seconds=None,
                aging_per_second=0.0,
                max_queue=max_queue,
            )
            for each in adaptive.classes
        ),
        max_active_per_replica=max_active,
        routing=adaptive.routing,
    )


@cache
def _read_source() -> Source:
    [source], problems = read_yaml(SCENARIO.name, SCENARIO.read_text())
    if problems:
        raise ValueError("; ".join(map(str, problems)))
    return source


def _rate_of(spec: TrafficSpec) -> float:
    assert isinstance(spec.process, Poisson), "the example's arrivals are independent"
    return spec.process.rate


def _steady(spec: TrafficSpec, rate: float) -> TrafficSpec:
    return replace(spec, process=Poisson(rate))


def _bursts(spec: TrafficSpec, rate: float) -> TrafficSpec:
    """Interactive calls come in clusters."""
    if spec.name != INTERACTIVE:
        return _steady(spec, rate)
    process = Bursts(rate=rate / _BURST_SIZE, mean_size=_BURST_SIZE, within=_BURST_SECONDS)
    return replace(spec, process=process)


def _long_prompts(spec: TrafficSpec, rate: float) -> TrafficSpec:
    """Interactive prompts are three times as long."""
    if spec.name != INTERACTIVE:
        return _steady(spec, rate)
    return replace(spec, process=Poisson(rate), prompt=_LONG)


SHAPES: dict[str, Callable[[TrafficSpec, float], TrafficSpec]] = {
    "steady": _steady,
    "bursts": _bursts,
    "long prompts": _long_prompts,
}
