"""Sustained overload of a higher class, as `ops/examples/simulate/starvation.yaml` has it."""

from pathlib import Path

from controlplane.specs.scenario_compiling import read_scenario
from controlplane.specs.yaml_reader import read_yaml
from dataplane.lifecycle import Disposition
from dataplane.policy import ClassPolicy
from dataplane.simulation.fleet import Fleet

EXAMPLE = Path(__file__).parents[3] / "ops/examples/simulate/starvation.yaml"
LONGEST_SERVICE = 100 * 0.0205
"""Seconds: most output tokens, each in a step with its share of prompts."""


def open_example(replaced: str = "", by: str = "") -> Fleet:
    text = EXAMPLE.read_text()
    assert replaced in text
    [source], problems = read_yaml(EXAMPLE.name, text.replace(replaced, by))
    document, more = read_scenario(source, EXAMPLE.parent)
    assert not [*problems, *more]
    assert document is not None
    return Fleet(document.fleet)


def oldest_batch_age(fleet: Fleet) -> float:
    """Of all moments, a quarter of a second apart; the whole scenario is run."""
    [gateway] = fleet.gateways
    ages = [0.0]

    def look() -> None:
        entered_at = gateway.queue.oldest_entered_at_by_class().get("batch")
        if entered_at is not None and fleet.timeline.now <= fleet.scenario.duration:
            ages.append(fleet.timeline.now - entered_at)

    fleet.every(0.25, look)
    fleet.run_until(fleet.scenario.duration)
    fleet.check_integrity()
    return max(ages)


def overtakes_after(lower: ClassPolicy, higher: ClassPolicy) -> float:
    """Seconds of waiting after which the oldest of a class goes before all of a higher one that
    gains nothing by waiting."""
    return (higher.priority - lower.priority) / lower.aging_per_second


def test_the_oldest_batch_request_never_waits_longer_than_aging_allows() -> None:
    fleet = open_example()
    interactive, batch = fleet.scenario.policy.classes
    bound = overtakes_after(batch, interactive)
    oldest = oldest_batch_age(fleet)
    assert oldest <= bound + LONGEST_SERVICE, "then the next slot that is free is its own"
    assert oldest > 0.9 * bound, "interactive requests wait all the time"
    assert fleet.results.of_class("batch").num_answered > 30


def test_without_aging_it_starves() -> None:
    fleet = open_example("aging: 2/s, ")
    assert oldest_batch_age(fleet) > 0.9 * fleet.scenario.duration


def test_a_tenant_that_floods_does_not_starve_another_of_its_class() -> None:
    fleet = open_example()
    fleet.run_until(fleet.scenario.duration)
    columns = fleet.results.columns
    assert columns is not None
    answered = {list(Disposition).index(each) for each in (Disposition.STOP, Disposition.LENGTH)}
    share = {}
    for tenant, number in columns.tenant_names.items():
        rows = zip(columns.disposition, columns.tenant, strict=True)
        ends = [disposition in answered for disposition, of in rows if of == number]
        share[tenant] = sum(ends) / len(ends)
    assert share["shop"] > 0.95
    assert share["flood"] < 0.7
    assert columns.checksum() == _checksum(open_example()), "the same seed, the same bytes"


def _checksum(fleet: Fleet) -> str:
    fleet.run_until(fleet.scenario.duration)
    assert fleet.results.columns is not None
    return fleet.results.columns.checksum()
