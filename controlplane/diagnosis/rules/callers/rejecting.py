"""policy.rejecting: a limit refuses requests, as it was set to, and what is accepted does well."""

import re

from controlplane.diagnosis.citing import moved
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.callers.in_streams import refused_in_streams
from controlplane.diagnosis.rules.callers.limits import (
    LIMIT,
    is_crossed_in_words,
    is_over_threshold,
    is_reached,
)
from controlplane.diagnosis.rules.callers.refusals import (
    are_retries,
    are_too_long,
    listed_sent,
    names_its_limit,
    refused_in,
)
from controlplane.diagnosis.rules.life.silent_engine import answers_since, silent_replicas
from controlplane.diagnosis.rules.queue.full_queue import are_for_want_of_seats, num_past_deadlines
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, plain, told, told_all, told_number
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_FEW_SHARE = 0.02
"""Of what was sent: limits catch a few in any healthy hour."""
_FEW = 5.0
_SOME = 2.0
"""Refused requests before an engine that has nobody to work at: more than one client's slip."""


def _judge(window: Window) -> Verdict | None:
    now, argument = activity_of(window), Argument(window)
    if is_crossed_in_words(argument, window):
        return _by_its_own_words(argument, now)
    if refused_in_streams(argument, now) >= _FEW:
        _weigh(argument, now)
        return argument.verdict(Confidence.CERTAIN, detail="told inside of streams")
    refused = refused_in(argument, window)
    if refused < _FEW or _only_for_want_of_answers(window) or are_for_want_of_seats(window, now):
        return None
    sent = _sent(argument, window)
    too_long = are_too_long(argument, window)
    if sent and refused / max(sent, refused) < _FEW_SHARE and not too_long:
        return None
    reached = is_reached(argument, now, refused, sent)
    is_over = is_over_threshold(argument, window)
    room = _has_room(argument, now)
    _cite_settings(argument, now)
    _weigh(argument, now)
    if too_long:
        return _for_their_length(argument)
    if are_retries(argument, window, refused):
        argument.need("how many of the refused are retries")
        return argument.verdict(Confidence.POSSIBLE)
    if reached and room and names_its_limit(window):
        return argument.verdict(Confidence.CERTAIN)
    if reached or is_over or room or (room is None and not _is_saturated(now)):
        return argument.verdict(Confidence.LIKELY)
    argument.need("which limit refused them, and its value")
    return argument.verdict(Confidence.POSSIBLE)


def _for_their_length(argument: Argument) -> Verdict:
    """No limit of how many: each of them alone is too long."""
    argument.against("queue.never_fits: they are refused, and hold up nobody")
    return argument.verdict(
        Confidence.CERTAIN,
        detail="length",
        remedy="Shorten what is sent, or raise the limit of length if the memory allows it.",
    )


def _by_its_own_words(argument: Argument, now: Activity) -> Verdict | None:
    """Whoever refuses tells the limit, and that it was crossed: once, by one line. How many are
    refused has to be counted beside it, or the line is of one request of a service that works."""
    refused, sent = refused_in(argument, now.window), _sent(argument, now.window)
    if sent and refused / max(sent, refused) < _FEW_SHARE:
        return None
    room = _has_room(argument, now)
    _cite_settings(argument, now)
    _weigh(argument, now)
    is_idle = _runs_nobody(now)
    if refused >= (_SOME if is_idle else _FEW):
        return argument.verdict(Confidence.CERTAIN if room else Confidence.LIKELY)
    argument.need("how many requests are refused, and of how many")
    return argument.verdict(Confidence.POSSIBLE if is_idle is False else Confidence.LIKELY)


def _runs_nobody(now: Activity) -> bool | None:
    """None where nobody tells who runs."""
    return None if now.running is None else now.running.max <= 0


def _sent(argument: Argument, window: Window) -> float | None:
    """All that came."""
    series = window.find(Signal.RECEIVED)
    if series is not None:
        return series.increase if len(series.readings) > 1 else series.last.value
    fact = told_number(
        window, r"^(sent|offered|arrived|arrivals|requests|attempts)\b|burst requests"
    )
    argument.fact(fact)
    counts = (number_of(fact), listed_sent(window))
    return max((count for count in counts if count is not None), default=None)


_NO_LIMIT = frozenset({"deadline_unreachable", "no_replica"})
"""Reasons of gateways that nobody set a limit for: there was nobody to answer in time."""


def _only_for_want_of_answers(window: Window) -> bool:
    """An engine does not answer, and gateways refuse because of it alone."""
    reasons = {
        series.labels.get("reason", "")
        for series in window.all_series(Signal.GATEWAY_REJECTED)
        if series.increase
    }
    if not reasons <= _NO_LIMIT:
        return False
    if silent_replicas(window) or told(window, r"^replicas unreachable$") is not None:
        return True
    return bool(reasons) and answers_since(window, window.start) == 0


def _answered(now: Activity) -> Series | None:
    """What shows that answers come out."""
    ended = [
        series
        for series in now.window.all_series(Signal.GATEWAY_ENDED)
        if series.labels.get("disposition") in ("stop", "length")
    ]
    known = [now.finished, now.window.find(Signal.GENERATION_TOKENS), *ended]
    return next((series for series in known if series is not None and series.increase), None)


def _has_room(argument: Argument, now: Activity) -> bool | None:
    """The engine could take more; None where nobody knows."""
    signs: list[bool] = []
    if now.kv is not None:
        argument.series(now.kv)
        signs.append(now.has_room is True)
    if now.waiting is not None:
        argument.series(now.waiting)
        running = 0.0 if now.running is None else now.running.last.value
        signs.append(now.waiting.last.value <= max(1.0, _SHORT * running))
    argument.series(now.running)
    preempted = now.preemptions
    if preempted is not None:
        argument.series(preempted)
    if not signs:
        return None
    return signs[0] if now.kv is not None else all(signs)


_SHORT = 0.25
"""Of the batch: such a queue is gone in a step or two."""


def _is_saturated(now: Activity) -> bool:
    backlog = now.backlog
    waits = backlog is not None and backlog.last.value > 0
    return waits and bool(now.is_full or now.has_all_seats_taken)


def _cite_settings(argument: Argument, now: Activity) -> None:
    for fact in told_all(now.window, LIMIT, without=r"model len|timeout"):
        argument.fact(fact)
    for fact in now.window.facts:
        if re.search(
            r"restart|latency|accepted|burst|blocks|worker queue|clients?$", plain(fact.key)
        ):
            argument.fact(fact)
    for change in now.window.changes:
        argument.change(change)
    argument.series(now.finished)


def _weigh(argument: Argument, now: Activity) -> None:
    if not num_past_deadlines(now.window):
        argument.against("queue.overload: they are refused at once and do not wait")
    if (answered := _answered(now)) is not None:
        argument.against(f"engine.hung: what was accepted is answered ({moved(answered)})")
    argument.against("tenant.flood: nobody says that one caller sends most")


REJECTING = Rule(
    id="policy-rejecting",
    mechanism=Mechanism.POLICY_REJECTING,
    judge=_judge,
    needs=("refused requests over time", "the limit that refuses, and its value"),
    told_apart=(
        "From queue.overload by requests that are refused at once beside room, or at a limit that "
        "is exactly reached and is no queue's before seats that are all taken; from "
        "queue.retry_storm by refusals that do not come again; from tenant.flood by callers who "
        "all are refused."
    ),
    remedy=(
        "As it was set: raise the limit on purpose where there is room, or let clients back off as "
        "the answer tells them to."
    ),
    hides=(
        "A higher limit turns refusals into waiting, and the queue then shows what the limit was "
        "for."
    ),
)
