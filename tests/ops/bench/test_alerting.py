"""Alerts fire, and stay silent, as every single request of known traffic says that they should."""

import ast
from pathlib import Path

import pytest

from ops.bench.bench_alerting import PROMISES, replay_own, replay_prometheus
from ops.bench.slo import truth
from ops.bench.slo.agreement import Prometheus, disagreements
from ops.bench.slo.scenarios import scenarios
from ops.bench.slo.traffic import DAY, HOUR, MINUTE, Phase, Scenario, traffic_of
from ops.bench.slo.truth import Fired, Promised, should_fire

MATURE = scenarios(3 * DAY, 6 * HOUR + 10 * MINUTE)
YOUNG = scenarios(20 * MINUTE, 7 * MINUTE)
"""An hour is full when the regression has spent enough of it: with less history before, its share
stands at the limit for minutes, where a single scrape decides. One of the two regressions is enough
for Prometheus, which takes longest of all with it: that with restarts; the bench replays both."""
STRICT, LOOSE = Promised(target="0.999", days=30), Promised(target="0.9", days=30)
FEW = (STRICT, Promised(target="0.99", days=30), LOOSE, Promised(target="0.999", days=7))
_NAME = "scenario"


def each(found: tuple[Scenario, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(_NAME, found, ids=[scenario.name for scenario in found])


@each(MATURE)
def test_the_control_plane_s_own_arithmetic_says_what_is_due(scenario: Scenario) -> None:
    replay = replay_own(scenario)
    assert replay.wrong == {promised: [] for promised in PROMISES}


@each(tuple(scenario for scenario in YOUNG if scenario.name != "2 % bad for 3 h"))
def test_prometheus_with_our_rules_says_what_is_due(scenario: Scenario) -> None:
    replay = replay_prometheus(scenario, FEW)
    assert replay.wrong == {promised: [] for promised in FEW}


def test_t1_what_is_due_of_an_outage_is_what_was_worked_out_by_hand() -> None:
    outage = next(scenario for scenario in MATURE if scenario.name == "outage of 10 min")
    traffic = traffic_of(outage.phases)
    quick = should_fire(traffic.total, traffic.bad, STRICT)["page_quick"]
    recovered = outage.trouble_at + 10 * MINUTE
    assert quick.first - outage.trouble_at == 52
    assert quick.last + 1 - recovered == 4 * MINUTE + 56
    assert quick.is_one_stretch


@pytest.mark.parametrize(
    ("name", "silent"),
    [("steady", True), ("blip of 30 s", True), ("1 request a minute", True), ("outage", False)],
)
def test_what_is_due_with_three_days_of_history_is_nothing_of_a_blip(
    name: str, silent: bool
) -> None:
    scenario = next(each for each in MATURE if each.name.startswith(name))
    traffic = traffic_of(scenario.phases)
    assert (not should_fire(traffic.total, traffic.bad, STRICT)) is silent


def test_a_grade_that_cannot_be_reached_is_never_due() -> None:
    traffic = traffic_of([Phase(seconds=DAY, bad_share=1.0)])
    assert "page_quick" not in should_fire(traffic.total, traffic.bad, LOOSE)
    assert "page_quick" in should_fire(traffic.total, traffic.bad, STRICT)


def test_the_calculation_that_the_others_are_held_to_imports_nothing_of_theirs() -> None:
    tree = ast.parse(Path(truth.__file__).read_text(encoding="utf-8"))
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {
        name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
    }
    assert not {name for name in modules if name.split(".")[0] in {"controlplane", "ops", "tests"}}


@pytest.mark.parametrize(
    "seen",
    [
        {},
        {"page_quick": Fired(first=1000 + 76, last=2000, is_one_stretch=True)},
        {"page_quick": Fired(first=1000, last=2000 + 76, is_one_stretch=True)},
        {
            "page_quick": Fired(first=1000, last=2000, is_one_stretch=True),
            "page_slow": Fired(first=1000, last=2000, is_one_stretch=True),
        },
    ],
)
def test_who_is_late_silent_or_loud_disagrees(seen: dict[str, Fired]) -> None:
    due = {"page_quick": Fired(first=1000, last=2000, is_one_stretch=True)}
    assert len(list(disagreements(due, seen, Prometheus(scenario=YOUNG[0])))) == 1
    assert not list(disagreements(due, due, Prometheus(scenario=YOUNG[0])))
