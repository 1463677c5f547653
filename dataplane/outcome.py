"""Whose doing the end of a request was, as far as a contract cares."""

from enum import StrEnum

from dataplane.lifecycle import Delivery, Disposition


class Outcome(StrEnum):
    """Whose doing the end of a request was, as far as a contract cares."""

    ANSWERED = "answered"
    SERVICE_FAILED = "service_failed"
    CLIENT_LEFT = "client_left"
    CALLER_ERROR = "caller_error"


def outcome_of(disposition: Disposition, delivery: Delivery, status: int | None) -> Outcome:
    """Whose doing an end was. What the caller got wrong, or asked too much of, is told by a 4xx."""
    is_callers = status is not None and 400 <= status < 500
    match disposition:
        case Disposition.STOP | Disposition.LENGTH:
            is_whole = delivery is Delivery.COMPLETE
            return Outcome.ANSWERED if is_whole else Outcome.CLIENT_LEFT
        case Disposition.CANCELLED:
            return Outcome.CLIENT_LEFT
        case Disposition.INVALID if status is None:
            return Outcome.CALLER_ERROR
        case _:
            return Outcome.CALLER_ERROR if is_callers else Outcome.SERVICE_FAILED
