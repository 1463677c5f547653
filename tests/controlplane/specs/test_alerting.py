"""What a contract says of its alerts."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from controlplane.slo.alert_windows import GradeName
from controlplane.slo.alerting import DEFAULT_TERMS, AlertTerms
from controlplane.specs.alerting import AlertingSpec, alert_terms


def _read(**said: Any) -> AlertingSpec:
    return AlertingSpec.model_validate_json(json.dumps(said))


def test_what_is_said_reaches_whoever_evaluates() -> None:
    terms = alert_terms(_read(min_events=50, off=["ticket_slow"], team="search"))

    assert terms == AlertTerms(min_events=50, off=frozenset({GradeName.TICKET_SLOW}), team="search")


def test_a_contract_that_says_nothing_has_the_usual_terms() -> None:
    assert alert_terms(None) == alert_terms(_read()) == DEFAULT_TERMS


@pytest.mark.parametrize(
    "said",
    [
        {"min_events": 0},
        {"off": ["page_fast"]},
        {"off": ["page_slow", "page_slow"]},
        {"team": "Search Team"},
        {"minimum": 3},
    ],
)
def test_what_cannot_be_meant_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        _read(**said)
