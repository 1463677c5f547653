"""About how many calls a scenario has arrive."""

import json
from typing import Any

import pytest

from controlplane.specs.scenario import ScenarioSpec
from controlplane.specs.scenario_calls import num_expected_calls
from tests.controlplane.specs.test_scenario import problems_of

LENGTH = {"constant": 100}
CHAT = {"name": "chat", "poisson": "10/s", "prompt": LENGTH, "output": LENGTH}
TURNS = {"count": {"constant": 5}, "wait": {"constant": "2s"}, "added": LENGTH}
FLOOD = {"fault": "tenant_flood", "intensity": 9}


def expected(*arrivals: dict[str, Any], faults: tuple[dict[str, Any], ...] = ()) -> list[float]:
    return num_expected_calls(
        ScenarioSpec.model_validate_json(
            json.dumps(
                {
                    "duration": "100s",
                    "replicas": {
                        "count": 1,
                        "max_num_seqs": 4,
                        "max_num_batched_tokens": 100,
                        "max_model_len": 1000,
                        "num_blocks": 100,
                        "cost": {"iteration": "8ms"},
                    },
                    "policy": {"classes": [{"name": "all"}]},
                    "tenants": {"acme": {}, "globex": {}},
                    "arrivals": list(arrivals),
                    "faults": list(faults),
                }
            )
        )
    )


@pytest.mark.parametrize(
    ("change", "number"),
    [
        ({}, 1000),
        ({"start": "50s"}, 500),
        ({"start": "10s", "stop": "30s"}, 200),
        ({"turns": TURNS}, 5000),
        ({"turns": TURNS | {"count": {"seen": [1, 3]}}}, 2000),
        ({"turns": TURNS | {"count": {"at_least": 1, "at_most": 7}}}, 4000),
        ({"turns": TURNS | {"count": {"median": 3, "sigma": 1.0}}}, 3000),
        ({"turns": TURNS | {"count": {"constant": 1000}, "wait": {"mean": "10s"}}}, 6000),
    ],
)
def test_first_calls_and_their_later_turns_are_counted_as_far_as_there_is_time(
    change: dict[str, Any], number: float
) -> None:
    assert expected(CHAT | change) == [pytest.approx(number)]


def test_each_kind_of_traffic_counts_for_itself() -> None:
    every = {key: value for key, value in CHAT.items() if key != "poisson"}
    bursts = {"rate": "1/s", "mean_size": 20, "within": "1s"}
    assert expected(
        CHAT, every | {"name": "e", "every": "500ms"}, every | {"name": "b", "bursts": bursts}
    ) == [1000, 200, 2000]


@pytest.mark.parametrize(
    ("fault", "number"),
    [
        ({}, 10_000),
        ({"at": "50s"}, 5500),
        ({"at": "50s", "for": "10s"}, 1900),
        ({"tenants": ["acme"]}, 1000 + 2250),
        ({"share": "50%"}, 5500),
    ],
)
def test_a_flood_counts_while_it_lasts_and_of_its_tenants(
    fault: dict[str, Any], number: float
) -> None:
    of_both = {"tenants": {"acme": 1, "globex": 3}}
    assert expected(CHAT | of_both, faults=(FLOOD | fault,)) == [pytest.approx(number)]
    with_turns = CHAT | of_both | {"turns": TURNS}
    assert expected(with_turns, faults=(FLOOD | fault,)) == [pytest.approx(5 * number)]


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: spec["arrivals"][0].update(
            poisson="50000/s",
            turns={"count": {"constant": 20}, "wait": {"constant": "1s"}, "added": LENGTH},
        ),
        lambda spec: (
            spec.update(faults=[{"fault": "tenant_flood", "intensity": 10000}])
            or spec["arrivals"][0].update(poisson="100/s")
        ),
    ],
)
def test_turns_and_floods_that_no_run_can_hold_are_named(change: Any) -> None:
    [problem] = problems_of(change)
    assert "spec.arrivals[0]:" in problem
    assert "calls would arrive in one run, later turns and those of a flood included" in problem
