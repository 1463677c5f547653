"""Work that is sent in small portions, though there is more to do."""

import re

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.rules.pace.batch_limits import BACKLOG, does_more_with_more
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import late
from controlplane.diagnosis.views.device import cite_usage
from controlplane.diagnosis.views.figure import Figure
from controlplane.diagnosis.views.told import number_of, plain, told, told_all, told_number
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Unit

_QUARTER = 0.25
_SENDING = (
    r"\b(client|sender|caller|bench|job|load|user|script|worker)\w*\b.*\b(concurren\w*|threads"
    r"|workers|parallel\w*|batch( size)?|connections|in ?flight)\b|^(concurren\w*|batch size"
    r"|threads)$"
)
_ONE_BY_ONE = (
    r"one (at a time|by one)|sequential|serial|sync(hronous)?\b|in turn|awaits each|batch size 1"
)


def by_sending(
    argument: Argument, now: Activity, usage: Figure | None, *, is_idle: bool
) -> Verdict | None:
    """Few at a time, though there is more to do."""
    if now.waiting is not None and now.waiting.last.value > 0:
        return None
    sent = told_number(now.window, _SENDING, without=r"max num|gateway|limit")
    in_turn = _one_after_the_other(now.window)
    few = _is_few(now, number_of(sent))
    if not few and in_turn is None:
        return None
    here = None if now.running is None else late(now.running)
    more = here is not None and few and does_more_with_more(argument, now, here)
    wants_more = _wants_more(argument, now)
    argument.fact(sent)
    argument.fact(in_turn, "one after the other")
    argument.series(now.running, "the batch is small")
    argument.series(now.waiting, "nothing waits at the engine")
    argument.series(now.kv)
    cite_usage(argument, usage)
    if is_idle and (in_turn is not None or wants_more is True):
        argument.against("host.bound: no process of the host is known to be busy")
        argument.against("healthy: there is more to do than is sent")
        return argument.verdict(Confidence.LIKELY, detail="the way of sending")
    if more:
        argument.against("healthy: many more at once were measured, and it does far more with them")
        return argument.verdict(Confidence.LIKELY, detail="the way of sending")
    if wants_more is False and in_turn is None:
        return None
    argument.need("how busy the device is", "how many requests the client keeps in flight")
    return argument.verdict(Confidence.POSSIBLE)


def _one_after_the_other(window: Window) -> Fact | None:
    """Somebody says that each request is sent when the one before it has ended."""
    facts = told_all(window, r"client|send|mode|pattern|job|bench|batch|request|load|call")
    return next(
        (fact for fact in facts if re.search(_ONE_BY_ONE, f"{plain(fact.key)} {fact.raw.lower()}")),
        None,
    )


def _is_few(now: Activity, portion: float | None) -> bool:
    running = now.running.mean if now.running is not None else portion
    if running is None or running <= 0:
        return False
    seats = now.seats
    if seats is not None:
        return running <= _QUARTER * seats
    return running <= 4 or (portion is not None and portion <= 4)


def _wants_more(argument: Argument, now: Activity) -> bool | None:
    """None where somebody only hopes for more speed, which is no work that waits to be sent."""
    backlog = told_number(now.window, BACKLOG)
    if (number_of(backlog) or 0) > 0:
        argument.fact(backlog, "there is more to do")
        return True
    wanted = told(
        now.window,
        r"(expected|target|wanted|peak|reference|spec).*(tok|throughput|per s|rps)",
    )
    value, speed = number_of(wanted), None if now.decode is None else late(now.decode)
    is_speed = wanted is not None and wanted.unit is Unit.TOKENS_PER_SECOND
    if is_speed and value and speed and value < _FASTER * speed:
        return False
    argument.fact(wanted)
    return None if wanted is not None else False


_FASTER = 1.2
"""Times what it does: what is as fast as somebody wants is no trouble."""
