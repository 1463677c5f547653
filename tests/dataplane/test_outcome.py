"""Whose doing an end was: what a contract counts against the service, and what not."""

import pytest

from dataplane.lifecycle import Delivery, Disposition
from dataplane.outcome import Outcome, outcome_of


@pytest.mark.parametrize(
    ("disposition", "delivery", "status", "outcome"),
    [
        (Disposition.STOP, Delivery.COMPLETE, 200, Outcome.ANSWERED),
        (Disposition.LENGTH, Delivery.PARTIAL, 200, Outcome.CLIENT_LEFT),
        (Disposition.CANCELLED, Delivery.NONE, None, Outcome.CLIENT_LEFT),
        (Disposition.INVALID, Delivery.NONE, None, Outcome.CALLER_ERROR),
        (Disposition.INVALID, Delivery.NONE, 400, Outcome.CALLER_ERROR),
        (Disposition.INVALID, Delivery.NONE, 500, Outcome.SERVICE_FAILED),
        (Disposition.REJECTED, Delivery.NONE, 429, Outcome.CALLER_ERROR),
        (Disposition.INVALID, Delivery.NONE, 503, Outcome.REFUSED),
        (Disposition.REJECTED, Delivery.NONE, 503, Outcome.REFUSED),
        (Disposition.SHED, Delivery.NONE, 503, Outcome.REFUSED),
        (Disposition.DEADLINE, Delivery.NONE, 503, Outcome.REFUSED),
        (Disposition.LOST, Delivery.NONE, None, Outcome.REFUSED),
        (Disposition.LOST, Delivery.PARTIAL, None, Outcome.SERVICE_FAILED),
        (Disposition.ERROR, Delivery.NONE, 503, Outcome.REFUSED),
        (Disposition.ERROR, Delivery.NONE, 502, Outcome.SERVICE_FAILED),
        (Disposition.ERROR, Delivery.PARTIAL, 200, Outcome.SERVICE_FAILED),
        (Disposition.ERROR, Delivery.NONE, 404, Outcome.CALLER_ERROR),
    ],
)
def test_what_a_caller_got_wrong_or_asked_too_much_of_is_not_the_services_failure(
    disposition: Disposition, delivery: Delivery, status: int | None, outcome: Outcome
) -> None:
    assert outcome_of(disposition, delivery, status) is outcome
