"""Tokens that an engine counts as held by requests, to the token: SGLang's `#token`, from which it
leaves out what it merely keeps for reuse."""

import re

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.rules.life.callers_gone import callers_gone
from controlplane.diagnosis.rules.life.held_blocks import A_LENGTH, BEYOND, LENGTH_OF_ONE
from controlplane.diagnosis.rules.life.held_seats import LEAST_SECONDS
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import from_on
from controlplane.diagnosis.views.told import number_of, plain, told_number
from controlplane.diagnosis.views.truth import Truth
from dataplane.engine_metrics.signal import Signal

_GROWN = 1.5


def held_beyond_the_running(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """As many run as before or fewer, ever more tokens are held, and what runs is far shorter: an
    engine counts what it merely keeps for reuse apart from these."""
    held, running = now.window.find(Signal.CONTEXT_TOKENS), now.running
    each = told_number(now.window, LENGTH_OF_ONE, without=r"limit|max|before")
    length = number_of(each)
    if held is None or running is None or each is None or not length or length < A_LENGTH:
        return None
    runs = from_on(running, held.last.at - LEAST_SECONDS)
    if running.last.value <= 0 or runs is None or runs.last.value > runs.first.value:
        return None
    is_of_all = re.search(r"\b(sum|total|all|together)\b", plain(each.key)) is not None
    explained = length * (1.0 if is_of_all else running.last.value)
    lowest = min(held.readings, key=lambda reading: reading.value)
    has_grown = held.last.value >= _GROWN * lowest.value and lowest.at < held.last.at
    if held.last.value < BEYOND * explained or not has_grown:
        return None
    argument.series(held, "ever more is held")
    argument.series(running, "and no more run")
    argument.says(
        f"{running.last.raw} running, {says(each)}: {number(explained)} of {held.last.raw} tokens"
    )
    gone = callers_gone(argument, now)
    if not gone:
        argument.need("requests whose callers left")
    return Confidence.LIKELY if gone else Confidence.POSSIBLE


def held_to_the_token(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """Whenever nothing runs as many tokens are held as before, to the token, and requests have come
    and gone in between: they gave back theirs, and these belong to nobody."""
    held, running = now.window.find(Signal.CONTEXT_TOKENS), now.running
    if held is None or running is None or truth.is_wanted:
        return None
    idle = [
        reading
        for reading in held.readings
        if (runs := running.at(reading.at)) is not None and runs.value == 0
    ]
    if len(idle) < 2 or idle[-1].at - idle[0].at < LEAST_SECONDS:
        return None
    if idle[0].value < A_LENGTH or any(reading.value < idle[0].value for reading in idle):
        return None  # what was given back once is nobody's to keep
    between = running.between(idle[0].at, idle[-1].at)
    if between is None or between.max == 0:
        return None
    argument.series(held, "as many as before whenever nothing runs")
    argument.series(running)
    for sentence in truth.says:
        argument.says(sentence)
    gone = callers_gone(argument, now)
    if truth.is_wanted is False and (gone or truth.is_answered):
        return Confidence.LIKELY
    argument.need(*truth.needs, "requests whose callers left")
    return Confidence.POSSIBLE
