"""Prefill and decode workers are in the wrong proportion for this traffic."""

import re
from dataclasses import dataclass

from controlplane.diagnosis.citing import says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.summing import joined
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import activity_of
from controlplane.diagnosis.views.argument import Argument, course
from controlplane.diagnosis.views.course import early, late
from controlplane.diagnosis.views.phases import role_of
from controlplane.diagnosis.views.told import number_of, plain, share_of, told_all, told_number
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_QUEUE = 4.0
"""Requests: fewer come and go with single steps."""
_TIMES = 3.0
"""The queue of the other phase."""
_BUSY = 0.8
_IDLE = 0.5
_MOVE_TIME = r"(?=.*\b(kv|transfer|send|recv|nixl|mooncake|handoff)\b)(?=.*\b(ms|s|time|p50)\b)"
_QUICK_SECONDS = 0.2
_OTHER = {"prefill": "decode", "decode": "prefill"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One side, as far as is known."""

    name: str
    queue: float | None
    is_growing: bool
    busy: float | None
    """Share of the device or the batch, 0 to 1."""
    kv: float | None
    running: float | None
    says: tuple[str, ...]


def judge(window: Window) -> Verdict | None:
    """LIKELY where one side has a queue or is full and the other idles."""
    sides = {name: _phase(window, name) for name in ("prefill", "decode")}
    if all(not side.says for side in sides.values()):
        return None
    if activity_of(window).is_moving is False:
        return None
    argument = Argument(window)
    for name, side in sides.items():
        other = sides[_OTHER[name]]
        if _is_short(side) and _is_idle(other, side):
            return _too_little(argument, window, side, other)
    if not _is_split(window) or not any(_is_short(side) for side in sides.values()):
        return None
    for side in sides.values():
        for sentence in side.says:
            argument.says(sentence)
    argument.need(
        "queue and device usage of prefill and of decode workers",
        "time that moving KV takes",
    )
    return argument.verdict(Confidence.POSSIBLE)


def _too_little(argument: Argument, window: Window, short: Phase, other: Phase) -> Verdict:
    """One side has more than it can do, and the other has room."""
    for sentence in (*short.says, *other.says):
        argument.says(sentence)
    _cite_workers(argument, window)
    detail = f"too little {short.name} for this traffic, too much {other.name}"
    if _is_transfer_known_slow(argument, window):
        return argument.verdict(Confidence.POSSIBLE, detail=detail)
    if not short.queue and not _is_late(window):
        argument.need("requests that wait for each phase", "TTFT against what is expected")
        return argument.verdict(Confidence.POSSIBLE, detail=detail)
    argument.against("queue.overload: the other phase has room")
    sure = (short.busy or 0.0) >= _BUSY and other.busy is not None and (short.queue or 0.0) > 0
    return argument.verdict(Confidence.CERTAIN if sure else Confidence.LIKELY, detail=detail)


def _phase(window: Window, name: str) -> Phase:
    """By the series of its workers, and by what was told where they have none."""
    queue = _queue(window, name)
    running = _of_role(window, Signal.RUNNING, name)
    kv = _of_role(window, Signal.KV_USAGE, name)
    told = {figure: told_number(window, rf"(?=.*\b{name}){_TOLD[figure]}") for figure in _TOLD}
    return Phase(
        name=name,
        queue=number_of(told["queue"]) if queue is None else late(queue),
        is_growing=queue is not None and late(queue) > early(queue),
        busy=share_of(told["busy"]),
        kv=share_of(told["kv"]) if kv is None else late(kv),
        running=number_of(told["running"]) if running is None else late(running),
        says=(
            *(_course(series, name) for series in (queue,) if series is not None),
            *(says(fact) for fact in told.values() if fact is not None),
            *(_course(series, name) for series in (running, kv) if series is not None),
        ),
    )


_TOLD = {
    "queue": r"(?=.*\b(queue|queued|waiting|pending|backlog|prealloc|bootstrap)\b)"
    r"(?!.*\b(time|ms|s|wait time)$)",
    "busy": r"(?=.*\b(util\w*|busy|usage|gpu|load|occupancy|sm)\b)"
    r"(?!.*\b(kv|mem\w*|tokens?|cache|pool usage)\b)",
    "kv": r"(?=.*\b(kv|cache|token) ?(cache )?(usage|util\w*))",
    "running": r"(?=.*\b(running|batch( size)?|active)\b)",
}
"""What facts about a phase are called, beside its name, in the order in which they are cited."""


def _course(series: Series, name: str) -> str:
    return f"{name}: {course(series)}"


def _queue(window: Window, name: str) -> Series | None:
    signal = Signal.PREFILL_QUEUE if name == "prefill" else Signal.DECODE_QUEUE
    found = window.find(signal)
    return found if found is not None else _of_role(window, Signal.WAITING, name)


def _of_role(window: Window, signal: Signal, name: str) -> Series | None:
    found = [series for series in window.all_series(signal) if role_of(series.labels) == name]
    return joined(found) if len(found) > 1 else found[0] if found else None


def _is_short(side: Phase) -> bool:
    if side.busy is not None and side.busy < _IDLE:
        return False
    if side.running == 0 and (side.kv or 0.0) < _IDLE and side.busy is None:
        return False
    has_queue = side.queue is not None and side.queue >= _QUEUE
    is_full = (side.busy or 0.0) >= _BUSY or (side.kv or 0.0) >= _FULL
    return has_queue or (is_full and (side.queue is None or side.queue > 0) and bool(side.says))


_FULL = 0.9


def _is_idle(other: Phase, short: Phase) -> bool:
    """It has nothing that waits, and something shows that it has room."""
    if other.busy is not None and other.busy < _IDLE:
        return True
    if other.queue is not None and other.queue * _TIMES > (short.queue or _QUEUE):
        return False
    if other.busy is not None:
        return _is_less_busy(other, short)
    if other.kv is not None:
        return (other.kv < _IDLE and other.name == "decode") or other.running == 0
    if other.running is not None:
        return other.running <= 1
    return other.queue is not None and other.queue == 0 and short.is_growing


def _is_late(window: Window) -> bool:
    """Somebody tells of first tokens or of requests that wait, or the engines' queues grow."""
    waiting = window.find(Signal.WAITING)
    return bool(told_all(window, _FELT)) or (waiting is not None and late(waiting) >= _QUEUE)


_FELT = r"\b(ttft|tpot|itl|e2e|latency|waiting|queued?|backlog|pending|goodput|slo)\b"


def _is_less_busy(other: Phase, short: Phase) -> bool:
    """Clearly, with no queue and a cache that is mostly free beside one that is full."""
    if other.busy is None or short.busy is None or other.busy > short.busy - _CLEARLY:
        return False
    is_free = other.kv is not None and other.kv < _IDLE and (short.kv or 0.0) >= _FULL
    return other.queue is not None and (is_free or (short.is_growing and short.busy >= _FULL))


_CLEARLY = 0.2


def _cite_workers(argument: Argument, window: Window) -> None:
    for fact in told_all(
        window, r"(prefill|decode).*(workers|replicas|instances|gpus|nodes|ranks)"
    ):
        argument.fact(fact)
    for fact in window.facts:
        if re.search(r"\b\d+ ?p ?\d+ ?d\b", f"{plain(fact.key)} {fact.raw.lower()}"):
            argument.fact(fact)
    for change in window.changes:
        argument.says(f"change: {change.what}")


def _is_transfer_known_slow(argument: Argument, window: Window) -> bool:
    moving = window.find(Signal.TRANSFER_QUEUE)
    if moving is None:
        return False
    quick = told_number(window, _MOVE_TIME, without=r"ttft|queue|timeout")
    seconds = number_of(quick)
    if quick is not None and seconds is not None and seconds < _QUICK_SECONDS:
        argument.fact(quick, "moving KV is quick, so what counts as on its way waits for prefill")
        argument.against(f"transfer.bound: {says(quick)}")
        return False
    if late(moving) >= _QUEUE:
        argument.series(moving, "KV on its way")
        argument.need("time that moving KV takes")
        return True
    argument.against(f"transfer.bound: {moving.origin.name} {moving.last.raw}")
    return False


def _is_split(window: Window) -> bool:
    return window.find(Signal.PREFILL_QUEUE) is not None or any(
        re.search(r"prefill|decode", plain(fact.key))
        and re.search(r"worker|replica|node", fact.key)
        for fact in window.facts
    )


PHASE_MISMATCH = Rule(
    id="phase-mismatch",
    mechanism=Mechanism.PHASE_MISMATCH,
    judge=judge,
    needs=("queue and load of prefill and of decode workers",),
    told_apart="From overload by the other phase that idles, from slow transfer by few requests "
    "whose KV is on its way, from skew by workers of one phase that are alike.",
    remedy="Change the proportion of prefill to decode workers for this mix of prompt and output "
    "lengths, or let workers do both.",
    hides="More of both hides that one half of them idles, at its price.",
    explains=frozenset({Mechanism.QUEUE_OVERLOAD, Mechanism.BATCH_UNDERFILLED}),
)
