"""How long a request of a class would wait, as far as the measured drain rate tells. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dataplane.admission.load_signals import QueueLoad
from dataplane.policy import ClassPolicy
from dataplane.routing.first_token_time import longest_wait

_HOUR = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitEstimate:
    """Until engine work of one more request begins."""

    seconds: float
    num_ahead: int
    requests_per_second: float
    """Of all classes."""
    own_requests_per_second: float | None = None
    """Of its class alone, where that decided; None: it did not."""

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s" if self.seconds < _HOUR else "more than an hour"


def find_deadline(
    request_class: ClassPolicy, load: QueueLoad, is_other: bool = False
) -> float | None:
    """How long the request that is decided on may wait for engine work, in seconds, were it of
    `request_class`; None: no limit. `is_other`: another one, with a prompt as long as usual.

    Where it is not known how long its first token then takes, it takes no time.
    """
    within = request_class.first_token_seconds
    if within is None:
        return request_class.deadline_seconds
    if (reading := load.first_token) is not None:
        within = longest_wait(within, reading.usual if is_other else reading.of_this)
    deadline = request_class.deadline_seconds
    return within if deadline is None else min(deadline, within)


def explain_deadline(request_class: ClassPolicy, load: QueueLoad, is_other: bool = False) -> str:
    """In words, of one that has a deadline."""
    deadline = find_deadline(request_class, load, is_other)
    assert deadline is not None
    if deadline == request_class.deadline_seconds:
        whose = "its deadline" if is_other else f"the deadline of class {request_class.name}"
        return f"{whose} is {deadline:g} s"
    whose = "its first token" if is_other else f"the first token of class {request_class.name}"
    within = f"{whose} must come within {request_class.first_token_seconds:g} s"
    if (reading := load.first_token) is None:
        return within
    takes = reading.usual if is_other else reading.of_this
    return f"{within}, and takes {takes:.2g} s from there"


def find_late_wait(
    classes: Sequence[ClassPolicy],
    request_class: ClassPolicy,
    load: QueueLoad,
    is_other: bool = False,
) -> WaitEstimate | None:
    """The wait of one more request of `request_class`, where it is past its deadline; None: it is
    not, or nobody can tell. `is_other` as for `find_deadline`."""
    deadline = find_deadline(request_class, load, is_other)
    if deadline is None or not _may_be_later(deadline, load):
        return None
    expected = estimate_wait(classes, request_class, load)
    return expected if expected is not None and expected.seconds > deadline else None


def may_be_late(request_class: ClassPolicy, load: QueueLoad) -> bool:
    """One more request of `request_class` would be past its deadline, were all ahead of it."""
    deadline = find_deadline(request_class, load)
    return deadline is not None and _may_be_later(deadline, load)


def _may_be_later(deadline: float, load: QueueLoad) -> bool:
    """Cheap: were all ahead of it, or as fast as the slower of both rates."""
    drain, own = load.drain, load.own_drain
    if drain is None or not drain.is_current:
        return False
    slowest = drain if own is None else min(drain, own, key=lambda each: each.requests_per_second)
    return slowest.seconds_for(load.num_waiting + 1) > deadline


def estimate_wait(
    classes: Sequence[ClassPolicy],
    request_class: ClassPolicy,
    load: QueueLoad,
    without: Sequence[str] = (),
) -> WaitEstimate | None:
    """For one more request of `request_class`, were nobody of `without` there. None: nobody can
    tell, because the drain rate was not measured, or too long ago."""
    if load.drain is None or not load.drain.is_current:
        return None
    num_ahead = sum(
        _num_ahead(other, request_class, load) for other in classes if other.name not in without
    )
    seconds, own_rate = load.drain.seconds_for(num_ahead + 1), None
    if load.own_drain is not None and request_class.name not in without:
        num_own = _num_ahead(request_class, request_class, load)
        behind = load.own_drain.seconds_for(num_own + 1)
        if behind > seconds:
            seconds = min(behind, _seconds_to_rise(classes, request_class) + seconds)
            own_rate = load.own_drain.requests_per_second
    return WaitEstimate(
        seconds=seconds,
        num_ahead=num_ahead,
        requests_per_second=load.drain.requests_per_second,
        own_requests_per_second=own_rate,
    )


def _seconds_to_rise(classes: Sequence[ClassPolicy], request_class: ClassPolicy) -> float:
    """How long one waits until newcomers of the classes above it go behind it."""
    above = [other for other in classes if other.priority > request_class.priority]
    aging = request_class.aging_per_second
    if aging <= 0 or any(other.aging_per_second for other in above):
        return math.inf
    return max((other.priority - request_class.priority for other in above), default=0) / aging


def _num_ahead(other: ClassPolicy, request_class: ClassPolicy, load: QueueLoad) -> int:
    """How many of `other` go before a request of `request_class` that comes now.

    Of its own class those that its queue puts before its tenant, where that was asked. All of
    another whose priority is no lower. Of a lower one those whose waiting has raised them
    above it: of a class that has waited evenly, from its oldest to its newest, as many as have
    waited for so long.
    """
    num_waiting = load.num_waiting_by_class.get(other.name, 0)
    if other.name == request_class.name:
        return load.num_before_by_class.get(other.name, num_waiting)
    if not num_waiting or other.priority >= request_class.priority:
        return num_waiting
    oldest = load.oldest_age_by_class.get(other.name, 0.0)
    raised = other.aging_per_second * oldest
    lacking = request_class.priority - other.priority
    if raised < lacking:
        return 0
    return math.ceil(num_waiting * (raised - lacking) / raised)
