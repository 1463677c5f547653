"""Two tellings of one trouble are one alert, and two troubles are two."""

from dataclasses import replace

import pytest

from controlplane.slo.alert import AlertSubject
from controlplane.slo.alert_windows import Severity

BURN = AlertSubject(
    name="PilothouseBudgetBurn",
    severity=Severity.PAGE,
    grade="page_quick",
    deployment="chat",
    request_class="interactive",
    objective="ttft",
)


def test_the_fingerprint_is_of_what_it_is_about_and_stays_between_releases() -> None:
    assert replace(BURN).fingerprint == BURN.fingerprint == "4a36d84bfe75ed08"


@pytest.mark.parametrize(
    "other",
    [
        replace(BURN, grade="page_slow"),
        replace(BURN, severity=Severity.TICKET),
        replace(BURN, deployment=None),
        replace(BURN, request_class="ttft", objective="interactive"),
        replace(BURN, instance="127.0.0.1:8701"),
        replace(BURN, name="PilothouseQueueAge"),
    ],
)
def test_what_is_about_something_else_has_another_one(other: AlertSubject) -> None:
    assert other.fingerprint != BURN.fingerprint
