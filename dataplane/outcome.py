"""Whose doing the end of a request was, as far as a contract cares.

    how it ended                                            whose doing        spends budget
    answered, and handed over whole                         answered           where it was late
    refused, shed or expired in the queue (503)             refused            of every objective
    answered 503 before its first token, or lost then       refused            of every objective
    failed by an engine or a gateway after it was let in    service_failed     of all but acceptance
    the client left, or took its answer too slowly          client_left        see judgement.py
    invalid, or over a limit of the caller's own (4xx)      caller_error       of none

Of a request that was lost nobody can tell how far it had come, unless it had been written to.
"""

from enum import StrEnum

from dataplane.lifecycle import Delivery, Disposition

_UNAVAILABLE = 503


class Outcome(StrEnum):
    """Whose doing the end of a request was, as far as a contract cares."""

    ANSWERED = "answered"
    REFUSED = "refused"
    """The service did not let it in, or nobody can tell that it did."""
    SERVICE_FAILED = "service_failed"
    """It was let in, and got no whole answer."""
    CLIENT_LEFT = "client_left"
    CALLER_ERROR = "caller_error"


def outcome_of(disposition: Disposition, delivery: Delivery, status: int | None) -> Outcome:
    """Whose doing an end was. What the caller got wrong, or asked too much of, is told by a 4xx."""
    match disposition:
        case Disposition.STOP | Disposition.LENGTH:
            is_whole = delivery is Delivery.COMPLETE
            return Outcome.ANSWERED if is_whole else Outcome.CLIENT_LEFT
        case Disposition.CANCELLED:
            return Outcome.CLIENT_LEFT
        case Disposition.INVALID if status is None:
            return Outcome.CALLER_ERROR
        case _ if status is not None and 400 <= status < 500:
            return Outcome.CALLER_ERROR
        case _ if status in (None, _UNAVAILABLE) and delivery is Delivery.NONE:
            return Outcome.REFUSED
        case _:
            return Outcome.SERVICE_FAILED
