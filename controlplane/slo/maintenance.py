"""Which part of a time was planned maintenance, for what was spent of a budget in it. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from controlplane.slo.alert_windows import MINUTE
from controlplane.slo.promised import Promise
from controlplane.slo.silences import Silence, SilenceKind

_NS = 10**9


class Stretch(NamedTuple):
    """A piece of time: whole minutes, as counts are kept by them, since the epoch."""

    start_unix: int
    end_unix: int
    """Not part of it any more."""


def maintenance_of(
    promise: Promise, silences: Iterable[Silence], start_unix: int, end_unix: int
) -> list[Stretch]:
    """The minutes within `start_unix` and `end_unix` that maintenance of `promise` touched, each
    once however many windows touched it; the oldest first.

    A window of severity tickets is one all the same: which alerts it kept back does not matter.
    """
    found = (
        _within(each, start_unix, end_unix)
        for each in silences
        if each.kind is SilenceKind.MAINTENANCE
        and each.scope.is_about(promise.deployment, promise.request_class, promise.objective)
    )
    return _joined(each for each in found if each.start_unix < each.end_unix)


def _within(silence: Silence, start_unix: int, end_unix: int) -> Stretch:
    """Empty where it was called off before it began, or lies elsewhere."""
    if silence.over_at_unix_ns <= silence.from_unix_ns:
        return Stretch(start_unix, start_unix)
    first = silence.from_unix_ns // _NS // MINUTE * MINUTE
    last = -(-silence.over_at_unix_ns // (_NS * MINUTE)) * MINUTE
    return Stretch(max(first, start_unix), min(last, end_unix))


def _joined(stretches: Iterable[Stretch]) -> list[Stretch]:
    joined: list[Stretch] = []
    for each in sorted(stretches):
        if joined and each.start_unix <= joined[-1].end_unix:
            joined[-1] = Stretch(joined[-1].start_unix, max(joined[-1].end_unix, each.end_unix))
        else:
            joined.append(each)
    return joined
