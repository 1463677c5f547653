"""Routing by prefix against two choices, as `ops/examples/simulate/shared-prefixes.yaml` has it."""

from pathlib import Path

from controlplane.specs.scenario_compiling import read_scenario
from controlplane.specs.yaml_reader import read_yaml
from dataplane.simulation.fleet import Fleet

EXAMPLE = Path(__file__).parents[3] / "ops/examples/simulate/shared-prefixes.yaml"


def run(policy: str) -> Fleet:
    text = EXAMPLE.read_text(encoding="utf-8")
    assert text.count("routing: {policy: prefix}") == 1
    [source], problems = read_yaml(
        EXAMPLE.name, text.replace("routing: {policy: prefix}", f"routing: {{policy: {policy}}}")
    )
    document, more = read_scenario(source, EXAMPLE.parent)
    assert not [*problems, *more]
    assert document is not None
    fleet = Fleet(document.fleet)
    fleet.run()
    fleet.check_integrity()
    return fleet


def ttft(fleet: Fleet) -> list[float | None]:
    found = fleet.results.quantiles(fleet.results.of_class("questions"), [0.5, 0.99])
    return list(found["ttft"])


def test_documents_find_their_replica_again_and_first_tokens_come_much_sooner() -> None:
    prefix, two_choices = ttft(run("prefix")), ttft(run("two_choices"))
    for sooner, later, share in zip(prefix, two_choices, (0.2, 0.8), strict=True):
        assert sooner is not None
        assert later is not None
        assert sooner < share * later
