"""Tokens of requests that ended, which a pool of slots still holds: a short prompt finds no room.

What leaks whole adds up: all requests since the start fit as long as their sum did, and the one
with which the sum passes the pool is refused, however short it is.
"""

from dataclasses import dataclass

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.slot_pool import slot_pool_size
from controlplane.diagnosis.views.truth import Truth
from controlplane.diagnosis.window import Window

_FILLED = 0.9
"""Of the pool, by the prompts alone: the answer that broke off takes the rest."""
_SHORT = 0.6
"""Of the pool, for all that run: with more it is they who fill it."""
_FEWEST = 2
"""Requests that ended: one alone may be what a slot keeps for reuse."""


def held_by_ended(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """What ended and what runs make up the pool together, and what runs alone does not."""
    full = now.window.events_of(LogKind.NO_ROOM)
    slots = None if not full else _slots_until(now.window, full[0].index)
    pool = None if slots is None else slot_pool_size(now.window) or slots.promised
    if slots is None or not pool or len(slots.ended) < _FEWEST:
        return None
    gone, live = sum(slots.ended), sum(slots.live)
    if live <= 0 or live > _SHORT * pool or gone > pool or gone + live < _FILLED * pool:
        return None
    terms = " + ".join(number(each) for each in slots.ended)
    argument.says(
        f"{terms} = {number(gone)} tokens of requests that ended, and {number(live)} of what runs: "
        f"{number(gone + live)} of a pool of {number(pool)}"
    )
    argument.says(full[0].line.strip()[:160])
    if slots.were_idle:
        argument.says("all slots were idle before it")
    argument.against("oom.decode_growth and queue.never_fits: what runs is far below the pool")
    argument.against("cache.grown_contexts: the others had ended before it began")
    if not slots.were_idle:
        argument.need("whether all slots were idle before the request that found no room")
        return Confidence.POSSIBLE
    return Confidence.LIKELY


@dataclass(frozen=True, slots=True)
class _Slots:
    """As the log tells of them until one found no room."""

    ended: tuple[float, ...]
    """Tokens of each request."""
    live: tuple[float, ...]
    """Tokens of the prompts of those that run."""
    promised: float | None
    """Tokens of the only slot; None of several."""
    were_idle: bool


def _slots_until(window: Window, index: int) -> _Slots:
    open_: dict[str, LogEvent] = {}
    ended: list[float] = []
    promised: dict[str, float] = {}
    idle_at = -1
    kinds = (LogKind.PROMPT_STARTED, LogKind.REQUEST_ENDED, LogKind.IDLE)
    for event in window.events_of(*kinds):
        slot = event.words.get("slot", "")
        if event.index > index:
            break
        if event.kind is LogKind.IDLE:
            idle_at = event.index
        elif event.kind is LogKind.PROMPT_STARTED:
            open_[slot] = event
            promised[slot] = event.fields.get("context", 0.0)
        elif open_.pop(slot, None) is not None:
            ended.append(event.fields.get("tokens", 0.0))
    return _Slots(
        ended=tuple(ended),
        live=tuple(event.fields.get("tokens", 0.0) for event in open_.values()),
        promised=next(iter(promised.values())) if len(promised) == 1 else None,
        were_idle=all(event.index > idle_at for event in open_.values()) and idle_at >= 0,
    )
