"""policy.rejecting: a limit refuses requests, as it was set to, and what is accepted does well."""

import re

from controlplane.diagnosis.citing import moved, number, says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, plain, told_all, told_number
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, SignalKind, Unit

_FEW_SHARE = 0.02
"""Of what was sent: limits catch a few in any healthy hour."""
_FEW = 5.0
_MOST_RETRIES = 0.5
_NEAR = 0.02
"""At a limit, as near as two readings of a moving count are."""
_REFUSED = (
    r"\b(429|503|422|413)s?\b|\b(rejected|rejections?|rejects|refus\w+|shed|shedding|throttled|denied"
    r"|overloaded|turned away|quota exceeded)\b"
)
_NOT_REFUSED = (
    r"\b(limit|max|minimum|threshold|policy|setting|share|rate|before|per|health|probe|alert)\b"
)
_LIMIT = (
    r"\bmax|limit|quota|threshold|permits|allowed|ceiling|\bcap\b|busy (fraction|threshold)"
    r"|watermark"
)
_NOT_LIMIT = r"model len|context|output|tokens each|timeout|client|replicas|pods|length|retries"
_LIMITED = r"overload|busy|limit|quota|queue|capacity|rate|permit|full|reject|validation|length"
_TOO_LONG = (
    r"must be <= (\d+)\. Given: (\d+)|maximum context length is (\d+)|longer than the maximum|"
    r"exceeds? the (maximum|context|model)|too long|input length.*exceed"
)
_REFUSING_LINE = (
    r"no permits available|model is overloaded|queue (is )?full|too many requests|rate.?limit(ed)?|"
    r"workers are busy|server (is )?(busy|overloaded)|exceeded? (the )?(max|quota|limit)|"
    r"admission (denied|rejected)"
)


def _judge(window: Window) -> Verdict | None:
    now = activity_of(window)
    argument = Argument(window)
    refused = _refused(argument, window)
    if refused < _FEW:
        return None
    sent = _sent(argument, window)
    too_long = _too_long(argument, window)
    if sent and refused / max(sent, refused) < _FEW_SHARE and not too_long:
        return None
    reached = _reached(argument, now, refused, sent)
    is_over = _is_over_threshold(argument, window)
    room = _has_room(argument, now)
    _cite_settings(argument, now)
    _weigh(argument, now)
    if too_long:
        argument.against("queue.never_fits: they are refused, and hold up nobody")
        return argument.verdict(
            Confidence.CERTAIN,
            detail="length",
            remedy="Shorten what is sent, or raise the limit of length if the memory allows it.",
        )
    if _are_retries(argument, window, refused):
        argument.need("how many of the refused are retries")
        return argument.verdict(Confidence.POSSIBLE)
    if reached and room and _names_its_limit(window):
        return argument.verdict(Confidence.CERTAIN)
    if reached or is_over or room or (room is None and not _is_saturated(now)):
        return argument.verdict(Confidence.LIKELY)
    argument.need("which limit refused them, and its value")
    return argument.verdict(Confidence.POSSIBLE)


def _refused(argument: Argument, window: Window) -> float:
    """How many, by whoever counted most of them."""
    counts = [0.0]
    for series in _refusing_series(window):
        grown = series.increase if len(series.readings) > 1 else series.last.value
        if grown:
            reason = series.labels.get("reason") or series.labels.get("code", "")
            argument.says(f"{moved(series)}{f' ({reason})' if reason else ''}")
            counts.append(grown)
    events = window.events_of(LogKind.REJECTED)
    lines = window.lines_with(_REFUSING_LINE)
    if events or lines:
        num = max(len(events), len(lines))
        line = events[-1].line if events else lines[-1]
        argument.says(f"{num} such lines: {' '.join(line.split())[:200]}")
        counts.append(float(num))
    for fact in window.facts:
        listed = re.findall(r"\b(?:429|503)\b\s*(?:[:=x]|times)?\s*(\d+)", fact.raw)
        if fact.value is None and fact.part is None and listed:
            argument.fact(fact)
            counts += [float(count) for count in listed]
    for fact in _told_refused(window):
        argument.fact(fact)
        counts.append(number_of(fact) or 0.0)
    return max(counts)


def _refusing_series(window: Window) -> list[Series]:
    found = [
        *window.all_series(Signal.REJECTED),
        *window.all_series(Signal.GATEWAY_REJECTED),
        *(
            series
            for series in window.all_series(Signal.FAILED)
            if re.search(_LIMITED, " ".join(series.labels.values()), re.IGNORECASE)
        ),
        *(
            series
            for series in window.all_series(Signal.HTTP_ANSWERED)
            if re.search(r"\b(429|503|5xx)\b", " ".join(series.labels.values()))
        ),
    ]
    return [series for series in found if series.last.value > 0]


def _told_refused(window: Window) -> list[Fact]:
    return [
        fact
        for fact in told_all(window, _REFUSED, without=_NOT_REFUSED)
        if (value := number_of(fact)) is not None and value > 0 and fact.unit is None
    ] + [
        fact
        for fact in told_all(window, r"(answered|http|status|code) ?(429|503)")
        if (value := number_of(fact)) is not None and value > 0
    ]


def _sent(argument: Argument, window: Window) -> float | None:
    """All that came."""
    series = window.find(Signal.RECEIVED)
    if series is not None:
        return series.increase if len(series.readings) > 1 else series.last.value
    fact = told_number(
        window, r"^(sent|offered|arrived|arrivals|requests|attempts)\b|burst requests"
    )
    argument.fact(fact)
    return number_of(fact)


def _names_its_limit(window: Window) -> bool:
    """Whoever refuses says that a limit did it, and not the status of an answer alone."""
    return bool(
        window.lines_with(_REFUSING_LINE)
        or any(
            re.search(_LIMITED, " ".join(series.labels.values()), re.IGNORECASE)
            for series in _refusing_series(window)
        )
    )


def _reached(argument: Argument, now: Activity, refused: float, sent: float | None) -> bool:
    """What is in the engine, or what was accepted, is exactly what a limit of that allows."""
    running = None if now.running is None else now.running.last.value
    waiting = None if now.waiting is None else now.waiting.last.value
    queued = [
        ("in the batch and the queue", (running or 0.0) + (waiting or 0.0)),
        ("in the queue", waiting or 0.0),
    ]
    taken = [
        queued[0],
        ("in flight", now.in_flight.max if now.in_flight is not None else 0.0),
        ("accepted", _accepted(now.window, refused, sent)),
    ]
    found = False
    for fact in told_all(now.window, _LIMIT, without=_NOT_LIMIT):
        limit = number_of(fact)
        if limit is None or limit < 2 or fact.unit in (Unit.BYTES, Unit.SECONDS):
            continue
        of_queue = re.search(r"queue|wait|pending|backlog", plain(fact.key))
        for what, value in queued if of_queue else taken:
            if value > 0 and abs(value - limit) <= _NEAR * limit:
                argument.says(f"{number(value)} {what} = {says(fact)}")
                found = True
                break
    return found


def _accepted(window: Window, refused: float, sent: float | None) -> float:
    """How many were let in; 0 where they and the refused are not all that was sent."""
    finished = window.find(Signal.FINISHED)
    if finished is None:
        return 0.0
    grown = finished.increase if len(finished.readings) > 1 else finished.last.value
    accepted = grown or 0.0
    is_all = sent is not None and abs(accepted + refused - sent) <= _NEAR * sent
    return accepted if is_all else 0.0


def _is_over_threshold(argument: Argument, window: Window) -> bool:
    """A share of a budget, told beside the budget: `busy_fraction: 1.5` of so many tokens."""
    shares = told_all(window, r"(fraction|threshold|ratio|factor|watermark)", without=r"memory|gpu")
    budgets = told_all(window, r"max (num )?batched tokens|blocks? per|budget|capacity")
    measured = [
        (series.origin.name, series.last.value, series.last.raw, series.signal.terms.unit)
        for series in window.series
        if series.signal.terms.kind is SignalKind.GAUGE
    ] + [
        (fact.key, value, fact.raw, _counted_in(fact))
        for fact in told_all(window, r"active|prefill tokens|busy|load|usage")
        if (value := number_of(fact)) is not None
    ]
    for share in shares:
        for budget in budgets:
            part, whole = number_of(share), number_of(budget)
            if (
                part is None
                or whole is None
                or whole < _LEAST_BUDGET
                or not 0 < part < _MOST_FACTOR
            ):
                continue
            limit = part * whole
            unit = _counted_in(budget)
            over = [
                each
                for each in measured
                if each[3] is unit is not None and limit < each[1] <= _NOT_FAR * limit
            ]
            if over:
                values = ", ".join(raw for _, _, raw, _ in over[:4])
                argument.says(
                    f"{over[0][0]} {values} > {number(limit)} = {says(share)} x {says(budget)}"
                )
                return True
    return False


def _counted_in(fact: Fact) -> Unit | None:
    """Tokens or blocks, as its unit or its key says; None for anything else."""
    for unit, word in ((Unit.TOKENS, "token"), (Unit.BLOCKS, "block")):
        if fact.unit is unit or (fact.unit is None and word in plain(fact.key)):
            return unit
    return None


_LEAST_BUDGET = 16
_MOST_FACTOR = 10
_NOT_FAR = 2.0
"""What refuses at a limit does not let much more in."""


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


def _too_long(argument: Argument, window: Window) -> bool:
    """A limit of length refuses them, and says so."""
    lines = window.lines_with(_TOO_LONG)
    if not lines and not window.events_of(LogKind.PROMPT_TOO_LONG):
        return False
    for line in dict.fromkeys(lines[-2:]):
        argument.says(" ".join(line.split())[-240:])
    return True


def _are_retries(argument: Argument, window: Window, refused: float) -> bool:
    """The same requests again, as far as somebody counted them."""
    fact = told_number(
        window, r"retr(y|ies|ied)", without=r"limit|max|budget|policy|after|outer|sdk"
    )
    value = number_of(fact)
    if value is not None and value >= _MOST_RETRIES * (refused if value > 1 else 1.0):
        return True
    apart = told_number(
        window, r"distinct|unique|original|different (bodies|requests)|client calls"
    )
    every = told_number(window, r"^(requests|arrivals|attempts|received)\b")
    num, whole = number_of(apart), number_of(every)
    if apart is None or every is None or not num or not whole or whole < num / _MOST_RETRIES:
        return False
    argument.says(f"{says(every)}, {says(apart)}: most of them came before")
    return True


def _cite_settings(argument: Argument, now: Activity) -> None:
    for fact in told_all(now.window, _LIMIT, without=r"model len|timeout"):
        argument.fact(fact)
    for fact in now.window.facts:
        if re.search(
            r"restart|latency|accepted|burst|blocks|worker queue|clients?$", plain(fact.key)
        ):
            argument.fact(fact)
    for change in now.window.changes:
        argument.says(f"{change.at:g} s: {change.what}")
    argument.series(now.finished)


def _weigh(argument: Argument, now: Activity) -> None:
    argument.against("queue.overload: they are refused at once and do not wait")
    argument.against("engine.hung: what was accepted is answered")
    argument.against("tenant.flood: nobody says that one caller sends most")


REJECTING = Rule(
    id="policy-rejecting",
    mechanism=Mechanism.POLICY_REJECTING,
    judge=_judge,
    needs=("refused requests over time", "the limit that refuses, and its value"),
    told_apart=(
        "From queue.overload by requests that are refused at once beside room or at a limit that "
        "is exactly reached; from queue.retry_storm by refusals that do not come again; from "
        "tenant.flood by callers who all are refused."
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
