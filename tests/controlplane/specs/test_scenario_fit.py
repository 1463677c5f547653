"""What a Scenario takes from the fit that it names, besides the cost of steps."""

from pathlib import Path
from typing import Any

import pytest

from dataplane.scheduling.step import StepPlan
from dataplane.simulation.distributions import Constant, Exponential, MedianAndTail
from dataplane.simulation.fitting.document import Fit, Noise, Overheads, Spread, save_fit
from dataplane.simulation.fleet_scenario import FleetScenario
from dataplane.simulation.gateway_overheads import NO_TIME
from tests.controlplane.specs.test_scenario import as_text, example, read
from tests.dataplane.simulation.fitting.known_fit import known_fit


def _spread(median: float, p95: float) -> Spread:
    return Spread(median=median, p95=p95, num_samples=20)


_MEASURED = known_fit(
    overheads=Overheads(
        arrival_to_admission=_spread(0.02, 0.05),
        selection_to_first_write=_spread(0.03, 0.04),
    ),
    cold_start={"load": _spread(12.0, 14.0), "warm_up": _spread(3.0, 3.0)},
)


def scenario(folder: Path, fit: Fit = _MEASURED, **changes: Any) -> dict[str, Any]:
    """The example with the fit as its cost, and nothing said of starts."""
    save_fit(fit, folder / "chat.fit.json")
    document = example()
    replicas = document["spec"]["replicas"]
    replicas["cost"] = {"fit": "chat.fit.json", **changes}
    del replicas["cold_start"]
    return document


def fleet_of(document: dict[str, Any], folder: Path) -> FleetScenario:
    found, problems = read(as_text(document), folder)
    assert not problems
    assert found is not None
    return found.fleet


def test_overheads_and_starts_come_from_the_fit(tmp_path: Path) -> None:
    fleet = fleet_of(scenario(tmp_path), tmp_path)
    assert fleet.overheads is not None
    assert fleet.overheads.before_admission == MedianAndTail(median=0.02, p95=0.05)
    assert fleet.overheads.before_first_write == MedianAndTail(median=0.03, p95=0.04)
    assert fleet.overheads.before_submission == NO_TIME
    assert {replica.cold_start.ready_after for replica in fleet.replicas} == {15.0}


def test_without_noise_medians_are_left(tmp_path: Path) -> None:
    fleet = fleet_of(scenario(tmp_path, noise="off"), tmp_path)
    assert fleet.overheads is not None
    assert fleet.overheads.before_admission == Constant(0.02)


def test_no_replica_draws_as_another_does_under_this_seed_or_the_next(tmp_path: Path) -> None:
    """A neighbour's draws under the next seed would make several seeds tell of one evening."""
    noise = Noise(
        shares=(0.0, 1.0), decode_factors=(0.5, 2.0), prompt_factors=(0.5, 2.0), correlation=0.0
    )
    document = scenario(tmp_path, known_fit(noise=noise))
    drawn: list[tuple[float, ...]] = []
    for seed in range(3):
        document["spec"]["seed"] = seed
        costs = [replica.cost for replica in fleet_of(document, tmp_path).replicas]
        drawn += [tuple(cost.step_time(StepPlan()) for _ in range(20)) for cost in costs]
    assert len(drawn) >= 3 * 2
    assert len(set(drawn)) == len(drawn)


def test_what_a_scenario_says_itself_goes_before_the_fit(tmp_path: Path) -> None:
    document = scenario(tmp_path)
    document["spec"]["replicas"]["cold_start"] = {"load": "40s"}
    document["spec"]["gateways"] = {"overheads": {"before_first_write": {"mean": "5ms"}}}
    fleet = fleet_of(document, tmp_path)
    assert fleet.overheads is not None
    assert fleet.overheads.before_first_write == Exponential(0.005)
    assert fleet.overheads.before_admission == NO_TIME
    assert fleet.replicas[0].cold_start.ready_after == 40.0


def test_nothing_said_in_so_many_words_goes_before_the_fit_too(tmp_path: Path) -> None:
    document = scenario(tmp_path)
    document["spec"]["replicas"]["cold_start"] = {}
    document["spec"]["gateways"] = {"overheads": {}}
    fleet = fleet_of(document, tmp_path)
    assert fleet.overheads is None
    assert fleet.replicas[0].cold_start.ready_after == 0


def test_costs_in_parts_bring_no_overheads() -> None:
    found, _ = read(as_text(example()), Path())
    assert found is not None
    assert found.fleet.overheads is None


def test_overheads_may_be_given_without_a_fit(tmp_path: Path) -> None:
    document = example()
    document["spec"]["gateways"]["overheads"] = {"before_admission": {"constant": "2ms"}}
    fleet = fleet_of(document, tmp_path)
    assert fleet.overheads is not None
    assert fleet.overheads.before_admission == Constant(0.002)


@pytest.mark.parametrize(
    ("cost", "what"),
    [
        ({"iteration": "8ms", "noise": "off"}, "noise is of a fit"),
        ({"fit": "chat.fit.json", "noise": "loud"}, "spec.replicas.cost.noise"),
        ({"fit": "another.fit.json"}, "another.fit.json cannot be read"),
    ],
    ids=["noise of parts", "another word", "a file that is not there"],
)
def test_a_mistake_about_a_fit_is_named_once(
    tmp_path: Path, cost: dict[str, Any], what: str
) -> None:
    document = scenario(tmp_path)
    document["spec"]["replicas"]["cost"] = cost
    found, problems = read(as_text(document), tmp_path)
    assert found is None
    [problem] = problems
    assert what in problem


def test_a_stage_of_the_fit_that_nobody_knows_is_a_problem_at_the_fit(tmp_path: Path) -> None:
    document = scenario(tmp_path, known_fit(cold_start={"bake": _spread(1.0, 1.0)}))
    _, problems = read(as_text(document), tmp_path)
    [problem] = problems
    assert "spec.replicas.cost.fit" in problem
    assert "stage bake" in problem
    document["spec"]["replicas"]["cold_start"] = {"load": "1s"}
    assert not read(as_text(document), tmp_path)[1]
