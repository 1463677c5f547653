"""Limits that what is let in stands at, or that it is beyond."""

import itertools
import re
from dataclasses import dataclass

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, plain, told_all
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, SignalKind, Unit

LIMIT = (
    r"\bmax|limit|quota|threshold|permits|allowed|ceiling|\bcap\b|busy (fraction|threshold)"
    r"|watermark"
)
_NOT_LIMIT = r"model len|context|output|tokens each|timeout|client|replicas|pods|length|retries"
_NEAR = 0.02
"""At a limit, as near as two readings of a moving count are."""


def is_reached(argument: Argument, now: Activity, refused: float, sent: float | None) -> bool:
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
    for fact in told_all(now.window, LIMIT, without=_NOT_LIMIT):
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


def is_crossed_in_words(argument: Argument, window: Window) -> bool:
    """A line of whoever refuses names what a caller used beside the limit of it, and it is more:
    `429: current tpm: 12260, tpm limit: 5000`."""
    for line in window.lines_with(_REFUSAL):
        text = line.replace("_", " ")
        if not re.search(_REFUSAL, _LIMIT_OF.sub(" ", _USED.sub(" ", text)), re.IGNORECASE):
            continue
        used = {(found[1] or "").lower().strip(): float(found[2]) for found in _USED.finditer(text)}
        limits = {found[1].lower().strip(): float(found[2]) for found in _LIMIT_OF.finditer(text)}
        if any(used[what] >= limits[what] > 0 for what in used.keys() & limits.keys()):
            argument.says(" ".join(line.split())[:300])
            return True
    return False


_REFUSAL = r"(?<![\d.])429(?![\d.])|rate.?limit|too many requests"
"""Beside the figures: `current resident: 65, resident limit: 64` refuses nobody, and neither does
`current rate: 429, rate limit: 400`."""
_USED = re.compile(r"\b(?:current|used|usage|consumed)( \w+)?\W{1,3}(\d+)", re.IGNORECASE)
_LIMIT_OF = re.compile(r"\b((?:\w+ )?)(?:limit|allowed|quota)\W{1,3}(\d+)", re.IGNORECASE)
"""Whose number it is stands beside it or, of both, nowhere."""


def is_over_threshold(argument: Argument, window: Window) -> bool:
    """A share of a budget, told beside the budget: `busy_fraction: 1.5` of so many tokens."""
    shares = told_all(window, r"(fraction|threshold|ratio|factor|watermark)", without=r"memory|gpu")
    budgets = told_all(window, r"max (num )?batched tokens|blocks? per|budget|capacity")
    amounts = _amounts(window)
    for share, budget in itertools.product(shares, budgets):
        limit = _threshold(share, budget)
        if limit is None:
            continue
        over = [each for each in amounts if each.is_over(limit, _counted_in(budget))]
        if over:
            values = ", ".join(each.raw for each in over[:4])
            argument.says(
                f"{over[0].name} {values} > {number(limit)} = {says(share)} x {says(budget)}"
            )
            return True
    return False


def _threshold(share: Fact, budget: Fact) -> float | None:
    """What the share of the budget comes to; None where the two are no such pair."""
    part, whole = number_of(share), number_of(budget)
    if part is None or whole is None or whole < _LEAST_BUDGET or not 0 < part < _MOST_FACTOR:
        return None
    return part * whole


@dataclass(frozen=True, slots=True)
class _Amount:
    """How much there was of something that a threshold may bound."""

    name: str
    value: float
    raw: str
    unit: Unit | None

    def is_over(self, limit: float, unit: Unit | None) -> bool:
        """More than allowed, and not so much more that it is of something else."""
        return self.unit is unit is not None and limit < self.value <= _NOT_FAR * limit


def _amounts(window: Window) -> list[_Amount]:
    gauges = [
        _Amount(series.origin.name, series.last.value, series.last.raw, series.signal.terms.unit)
        for series in window.series
        if series.signal.terms.kind is SignalKind.GAUGE
    ]
    facts = [
        _Amount(fact.key, value, fact.raw, _counted_in(fact))
        for fact in told_all(window, r"active|prefill tokens|busy|load|usage")
        if (value := number_of(fact)) is not None
    ]
    return gauges + facts


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
