"""An open incident wakes somebody only where callers get less than was promised to them."""

from dataclasses import replace

import pytest

from controlplane.api.alert_views import HeardView
from controlplane.api.incident_trouble import LateContract, trouble_of
from controlplane.api.incident_views import IncidentLine
from controlplane.api.silent_alerting import silent_troubles
from controlplane.store.incident_spell import IncidentSpell

_S = 10**9


def _incident() -> IncidentLine:
    return IncidentLine(
        incident_id="9f3a61c2",
        deployment="chat",
        state="open",
        title="cache.thrash",
        mechanism="cache.thrash",
        meaning="Running requests are preempted.",
        confidence="certain",
        severity=None,
        num_firing=0,
        opened_at_unix_ns=1_790_000_060 * _S,
        since_unix_ns=1_790_000_000 * _S,
        last_seen_at_unix_ns=1_790_000_090 * _S,
        resolved_at_unix_ns=None,
        num_reopened=0,
        spells=[
            IncidentSpell(
                opened_at_unix_ns=1_790_000_060 * _S,
                since_unix_ns=1_790_000_000 * _S,
                resolved_at_unix_ns=None,
            )
        ],
        acknowledged_at_unix_ns=None,
        acknowledged_by=None,
        runbook="ops/runbooks/cache-thrash.md",
    )


@pytest.mark.parametrize(
    ("num_good", "num_judged", "promised", "severity"),
    [
        (40, 60, 0.95, "page"),
        (59, 60, 0.95, "ticket"),
        (0, 19, 0.95, "ticket"),
        (0, 60, None, "ticket"),
    ],
)
def test_severity(num_good: int, num_judged: int, promised: float | None, severity: str) -> None:
    late = LateContract(num_good=num_good, num_judged=num_judged, promised_share=promised)
    assert trouble_of(_incident(), late).severity == severity


@pytest.mark.parametrize(("severity", "expected"), [("page", "page"), ("ticket", "ticket")])
def test_one_that_alerts_alone_tell_of_is_as_urgent_as_they_are(
    severity: str, expected: str
) -> None:
    incident = replace(
        _incident(), deployment=None, title="A gateway does not answer", mechanism=None,
        confidence=None, severity=severity, num_firing=2, meaning="It was not scraped.",
    )  # fmt: skip
    trouble = trouble_of(incident, None)
    assert (trouble.severity, trouble.deployment) == (expected, None)
    assert trouble.what == (
        f"A gateway does not answer (2 alerts fire, {severity}) since 2026-09-21 14:13:20 UTC. "
        "It was not scraped"
    )


@pytest.mark.parametrize(
    ("state", "age", "is_told"),
    [("well", 12, False), ("silent", 720, True), ("ended", 60, True), ("silent", 700_000, False)],
)
def test_silence_of_alerting_is_told_until_it_was_silent_for_a_week(
    state: str, age: float, is_told: bool
) -> None:
    heard = HeardView(
        source="alertmanager", heard_at_unix_ns=0, age_seconds=age, state=state, what="x",
        told_by=None,
    )  # fmt: skip
    assert [each.severity for each in silent_troubles([heard])] == ["no_data"] * is_told


def test_it_says_what_since_when_and_what_to_do() -> None:
    late = LateContract(num_good=40, num_judged=60, promised_share=0.95)
    trouble = trouble_of(_incident(), late)
    assert trouble.what == (
        "chat: cache.thrash (certain) since 2026-09-21 14:13:20 UTC. Running requests are "
        "preempted; 20 of 60 requests missed the contract lately"
    )
    assert trouble.remedy == (
        "Run `pilothouse incidents 9f3a61c2` and follow the runbook cache-thrash."
    )
