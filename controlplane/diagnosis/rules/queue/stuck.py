"""Requests that wait while nothing runs and nothing moves: what blocked and never-fits share."""

from dataclasses import dataclass
from itertools import pairwise

from controlplane.diagnosis.reading import Reading, Series
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.course import stretch_while
from controlplane.diagnosis.views.figure import Figure, figure_of
from controlplane.diagnosis.views.told import number_of, told_number
from controlplane.diagnosis.views.truth import truth_of
from dataplane.engine_metrics.signal import Signal

_AFTER = 0.5
"""Seconds. A rate that stands beside the first idle reading is of the time before it."""
LEAST_SECONDS = 15.0
"""A scheduler that has room admits within a step; a compilation or a long first step takes a few
seconds."""

_SLOWEST_DECODE = 5.0
"""Tokens a second of one request alone, where a queue is left beside free seats all the time: by
itself a pace proves nothing, since a large model on processors is as slow as 1."""
_MANY_LEFT = 8.0
"""Requests: fewer may just have come at each reading."""
_GAPS = (Signal.ITL, Signal.TPOT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck:
    """Since when nothing runs while something waits."""

    waiting: Series
    running: Series
    seconds: float
    moves: bool | None
    """None where nobody counts tokens or answers."""
    truth: Figure | None
    """What shows, beside the engine's gauges, that requests are really there."""
    denial: Figure | None
    """What shows that they are not."""

    @property
    def is_lasting(self) -> bool:
        """Longer than any admission takes."""
        return self.seconds >= LEAST_SECONDS


def stuck_of(now: Activity) -> Stuck | None:
    """None where something runs or nothing waits."""
    idle = stretch_while(now.running, lambda value: value == 0)
    waiting = stretch_while(_queue(now), lambda value: value > 0)
    if idle is None or waiting is None:
        return None
    start = max(idle.first.at, waiting.first.at)
    seconds = max(now.window.end, waiting.last.at) - start
    moves = now.moves(start + _AFTER, now.window.end)
    stood = _stood_before(now, idle, waiting)
    if min(len(idle.readings), len(waiting.readings)) < 2:
        seconds = max(_told_for(now), stood)
    return Stuck(
        waiting=waiting,
        running=idle,
        seconds=seconds,
        moves=False if moves is None and stood >= LEAST_SECONDS else moves,
        truth=_truth(now, waiting),
        denial=_denial(now),
    )


def _stood_before(now: Activity, idle: Series, waiting: Series) -> float:
    """Seconds before the first idle reading in which nothing can have run, though some still
    waited: the tokens that came are few even for one request that makes them slowly. 0 where that
    cannot be seen, or where it stood for less than half of the time."""
    running, tokens = now.running, now.window.find(Signal.GENERATION_TOKENS)
    earlier = (
        [] if running is None else [each for each in running.readings if each.at < idle.first.at]
    )
    if not earlier or tokens is None or waiting.first.at > earlier[-1].at:
        return 0.0
    between = tokens.between(earlier[-1].at, idle.first.at)
    pace = _own_pace(now, earlier[-1].at)
    if pace is None and _is_left_waiting(now, waiting, earlier[-1]):
        pace = _SLOWEST_DECODE
    if between is None or between.increase is None or between.span_seconds <= 0 or pace is None:
        return 0.0
    stood = between.span_seconds - between.increase / pace
    return stood if stood >= between.span_seconds / 2 else 0.0


def _own_pace(now: Activity, until: float) -> float | None:
    """Tokens a second that one request of this engine gets, the slowest that was seen: by the gaps
    that it measures, or up to `until`, while it worked. None where nobody knows."""
    running, tokens = now.running, now.window.find(Signal.GENERATION_TOKENS)
    gaps = (now.window.find_histogram(signal) for signal in _GAPS)
    means = [gap.mean for gap in gaps if gap is not None]
    paces = [1 / mean for mean in means if mean]
    readings = () if running is None else running.readings
    for before, after in pairwise(each for each in readings if each.at <= until):
        part = None if tokens is None else tokens.between(before.at, after.at)
        made = None if part is None else part.per_second
        if made and min(before.value, after.value) > 0:
            paces.append(made / max(before.value, after.value))
    return min(paces, default=None)


def _is_left_waiting(now: Activity, waiting: Series, before: Reading) -> bool:
    """Far more wait than run while seats and room are free, at the reading before as well, and they
    do not get fewer: an engine that works, however slowly, would have let them in."""
    many = max(_MANY_LEFT, 2 * before.value)
    is_left = waiting.min >= many and waiting.last.value >= waiting.first.value
    has_seats = now.seats is not None and before.value < now.seats / 2
    return is_left and has_seats and bool(now.has_room)


def _queue(now: Activity) -> Series | None:
    """Where most wait: at the engine, before it, or between prefill and decode. Where nobody counts
    them, who is in flight: it is asked where nothing runs."""
    signals = (Signal.DECODE_QUEUE, Signal.TRANSFER_QUEUE, Signal.PREFILL_QUEUE)
    found = [series for signal in signals if (series := now.window.find(signal)) is not None]
    if now.backlog is not None:
        found.append(now.backlog)
    if not found and now.in_flight is not None:
        return now.in_flight
    return max(found, key=lambda series: series.last.value, default=None)


def _told_for(now: Activity) -> float:
    """How long somebody says that it stands."""
    fact = told_number(
        now.window, r"(stuck|waiting|blocked|no progress|unchanged|since|oldest|duration).*"
    )
    value = number_of(fact)
    return 0.0 if value is None else value


def _truth(now: Activity, waiting: Series) -> Figure | None:
    inside = now.in_flight
    if inside is not None:
        if inside.last.value <= 0:
            return None
        return Figure(inside.last.value, f"{inside.origin.name} {inside.last.raw}")
    known = truth_of(now)
    if known.probe is not None and known.is_answered is False:
        return Figure(0.0, f"{known.probe.key} {known.probe.raw}", known.probe)
    queued = now.window.find(Signal.GATEWAY_QUEUED)
    if queued is not None and queued.last.value > 0 and queued is not now.backlog:
        return Figure(queued.last.value, f"{queued.origin.name} {queued.last.raw}")
    answers = told_number(now.window, r"(answers|answered|completions|completed|finished|done)\b.*")
    if answers is not None and number_of(answers) == 0:
        return Figure(0.0, f"{answers.key} {answers.raw}", answers)
    if len(waiting.readings) > 1 and not waiting.is_constant:
        values = f"{waiting.first.raw} -> {waiting.last.raw}"
        return Figure(waiting.last.value, f"{waiting.origin.name} {values}: the gauge is alive")
    return None


def _denial(now: Activity) -> Figure | None:
    inside = now.in_flight
    if inside is not None and inside.last.value == 0:
        return Figure(0.0, f"{inside.origin.name} {inside.last.raw}")
    known = truth_of(now)
    if known.probe is not None and known.is_answered:
        return figure_of(known.probe, number_of(known.probe) or 0.0)
    return None
