"""How long a request of a class would wait, as far as the measured drain rate tells. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dataplane.admission.load_signals import QueueLoad
from dataplane.policy import ClassPolicy

_HOUR = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitEstimate:
    """Until engine work of one more request begins."""

    seconds: float
    num_ahead: int
    requests_per_second: float

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s" if self.seconds < _HOUR else "more than an hour"


def find_late_wait(
    classes: Sequence[ClassPolicy], request_class: ClassPolicy, load: QueueLoad
) -> WaitEstimate | None:
    """The wait of one more request of `request_class`, where it is past its deadline; None: it is
    not, or nobody can tell."""
    deadline = request_class.deadline_seconds
    if deadline is None or not may_be_late(request_class, load):
        return None
    expected = estimate_wait(classes, request_class, load)
    return expected if expected is not None and expected.seconds > deadline else None


def may_be_late(request_class: ClassPolicy, load: QueueLoad) -> bool:
    """One more request of `request_class` would be past its deadline, were all ahead of it."""
    deadline, drain = request_class.deadline_seconds, load.drain
    if deadline is None or drain is None or not drain.is_current:
        return False
    return drain.seconds_for(load.num_waiting + 1) > deadline


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
    return WaitEstimate(
        seconds=load.drain.seconds_for(num_ahead + 1),
        num_ahead=num_ahead,
        requests_per_second=load.drain.requests_per_second,
    )


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
