"""Alerts of a burning budget, as a real evaluator of PromQL fires them."""

from pathlib import Path

import pytest

from controlplane.slo.burn_rate import shortest
from controlplane.slo.prometheus.burning import burning_groups
from controlplane.slo.prometheus.rules import AlertRule, RecordingRule
from controlplane.slo.promised import promises_of
from tests.controlplane.slo.prometheus.promtool import (
    LINKS,
    Expected,
    Firing,
    check,
    contract,
    try_rules,
    write_rules,
)
from tests.controlplane.slo.prometheus.test_counting import GOOD, JUDGED, STARTED, VERSION

_AVAILABILITY = contract([{"signal": "availability", "for": "99.9%"}])


def _scraped(*parts: tuple[int, int]) -> str:
    """A counter in promtool's notation, by parts of (increase per scrape, scrapes)."""
    value, words = 0, []
    for increase, scrapes in parts:
        words.append(f"{value}+{increase}x{scrapes - 1}")
        value += increase * scrapes
    return " ".join([*words, f"{value}"])


def test_an_outage_pages_within_the_next_evaluation_and_clears_soon_after(tmp_path: Path) -> None:
    files = write_rules(tmp_path, _AVAILABILITY)
    check(tmp_path, files)
    hour, outage, after = 4 * 60, 4 * 10, 4 * 10
    series = {
        STARTED: f"0x{hour + outage + after}",
        VERSION: f"0x{hour + outage + after}",
        JUDGED: _scraped((1500, hour + outage + after)),
        GOOD: _scraped((1500, hour), (0, outage), (1500, after)),
    }
    quick = ["page_quick", "page_slow", "ticket_quick", "ticket_slow"]
    try_rules(
        tmp_path,
        files,
        series,
        firing=[
            # promtool evaluates groups in no order: an alert may see the sums of 30 s before.
            Firing(at="60m", grades=[]),
            Firing(at="61m30s", grades=quick[:2]),
            Firing(at="74m30s", grades=quick),
            Firing(at="75m30s", grades=quick[1:]),
        ],
    )


def test_a_burn_of_six_pages_slowly_and_never_quickly(tmp_path: Path) -> None:
    files = write_rules(tmp_path, contract([{"signal": "availability", "for": "99%"}]))
    scrapes = 2 * 60 * 4
    series = {
        STARTED: f"0x{scrapes}",
        VERSION: f"0x{scrapes}",
        JUDGED: _scraped((1000, scrapes)),
        GOOD: _scraped((939, scrapes)),
    }
    slow = ["page_slow", "ticket_quick", "ticket_slow"]
    try_rules(tmp_path, files, series, firing=[Firing(at="2h", grades=slow)])


def test_a_steady_two_percent_of_a_one_percent_budget_is_a_slow_ticket_alone(
    tmp_path: Path,
) -> None:
    files = write_rules(tmp_path, contract([{"signal": "availability", "for": "99%"}]))
    scrapes = 3 * 60 * 4
    series = {
        STARTED: f"0x{scrapes}",
        VERSION: f"0x{scrapes}",
        JUDGED: _scraped((1000, scrapes)),
        GOOD: _scraped((980, scrapes)),
    }
    try_rules(tmp_path, files, series, firing=[Firing(at="3h", grades=["ticket_slow"])])


def test_one_request_a_minute_that_fails_once_pages_nobody(tmp_path: Path) -> None:
    files = write_rules(tmp_path, _AVAILABILITY)
    series = {
        STARTED: "0x40",
        VERSION: "0x40",
        JUDGED: "0x3 1x3 2x3 3x3 4x3 5x3 6x3 7x3 8x3 8",
        GOOD: "0x3 1x3 2x3 3x3 4x3 4x3 5x3 6x3 7x3 7",
    }
    try_rules(tmp_path, files, series, firing=[Firing(at="9m", grades=[])])


def test_an_alert_that_could_never_fire_is_left_out_and_said() -> None:
    spec = contract([{"signal": "tpot", "at_most": "40ms", "for": "90%"}])
    burning = burning_groups(list(promises_of("chat", "chat@7", spec)), LINKS)
    grades = [
        rule.labels["grade"]
        for group in burning.groups
        for rule in group.rules
        if isinstance(rule, AlertRule)
    ]
    assert grades == ["page_slow", "ticket_quick", "ticket_slow"]
    assert len(burning.left_out) == 1
    assert "page_quick" in burning.left_out[0]
    assert "1.44" in burning.left_out[0]


def test_a_contract_decides_how_many_requests_are_enough_and_whose_its_alerts_are(
    tmp_path: Path,
) -> None:
    alerting = {"min_events": 25, "off": ["ticket_slow"], "team": "chat-oncall"}
    spec = contract([{"signal": "availability", "for": "99.9%"}], alerting=alerting)
    files = write_rules(tmp_path, spec)
    check(tmp_path, files)
    scrapes = 4 * 20
    series = {
        STARTED: f"0x{scrapes}",
        VERSION: f"0x{scrapes}",
        JUDGED: f"0x3 {_scraped((1, scrapes))}",
        GOOD: f"0x{scrapes}",
    }
    grades = ["page_quick", "page_slow", "ticket_quick"]
    ours = 'count by (team) (ALERTS{alertstate="firing"})'
    try_rules(
        tmp_path,
        files,
        series,
        firing=[Firing(at="5m", grades=[]), Firing(at="12m", grades=grades)],
        expected=[Expected(at="12m", expr=ours, samples={'{team="chat-oncall"}': 3})],
    )


def test_a_new_revision_is_told_and_ends_no_series_and_no_alert() -> None:
    def rules(revision: str) -> list[AlertRule | RecordingRule]:
        burning = burning_groups(list(promises_of("chat", revision, _AVAILABILITY)), LINKS)
        return [rule for group in burning.groups for rule in group.rules]

    alerts = [rule for rule in rules("chat@8") if isinstance(rule, AlertRule)]
    assert {alert.annotations["contract_revision"] for alert in alerts} == {"chat@8"}
    targets = [rule for rule in rules("chat@8") if "objective_target" in str(rule)]
    assert {rule.labels["contract_revision"] for rule in targets} == {"chat@8"}
    for old, new in zip(rules("chat@7"), rules("chat@8"), strict=True):
        if old not in targets and "contract_revision" not in old.labels:
            assert old.labels == new.labels


def test_where_nothing_was_judged_there_is_no_burn_and_not_one_that_is_no_number(
    tmp_path: Path,
) -> None:
    files = write_rules(tmp_path, _AVAILABILITY)
    series = {STARTED: "0x40", JUDGED: "0x40", GOOD: "0x40", VERSION: "1x40"}
    try_rules(
        tmp_path,
        files,
        series,
        expected=[
            Expected(at="9m", expr=name, samples={})
            for name in (
                "pilothouse:objective_burn_rate:5m",
                "pilothouse:objective_budget_remaining:ratio",
            )
        ],
    )


def test_a_budget_longer_than_prometheus_keeps_is_told_elsewhere() -> None:
    spec = contract([{"signal": "availability", "for": "99.9%"}], window="90d")
    burning = burning_groups(list(promises_of("chat", "chat@7", spec)), LINKS)
    assert any("35d" in sentence for sentence in burning.left_out)
    assert "budget_remaining" not in str(burning.groups)


@pytest.mark.parametrize(
    ("value", "text"), [(0.001, "0.001"), (1 - 0.999, "0.0010000000000000009"), (0.5, "0.5")]
)
def test_numbers_are_written_as_they_are(value: float, text: str) -> None:
    assert shortest(value) == text
