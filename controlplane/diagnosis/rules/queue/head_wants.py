"""What the request in front wants that those behind it do not: room for its answer, or a resource
of its own."""

import re

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import ROOM, Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import is_sustained, stretch_while
from controlplane.diagnosis.views.told import number_of, plain, told, told_all, told_number
from dataplane.engine_metrics.signal import Signal

LONGER = 8
"""Times the others: what is only somewhat longer holds nobody up."""
_FEW = 3
"""Requests in the batch, one of which holds the others up."""
LEAST_SECONDS = 5.0
_ITS_ANSWER = (
    r"(running|head|first|long|large|big|one|active)\b.*\b(max (new |output )?tokens|answer|output)"
)
_THEIR_ANSWERS = (
    r"(waiting|others?|short|small|queued|rest)\b.*\b(max (new |output )?tokens|answer|output)"
)
_HEAD_WANTS = (
    r"(first|head|front|oldest)\b.*\b(queue|line|waiting|queued)\b"
    r"|head( of (the )?queue)?$"
)
_BEHIND = (
    r"(in|behind|of the) (the )?(queue|it|line|head)\b.*\b(with|without|need\w*|want\w*|other"
    r"|base)"
)
_LACKS = r"adapter|lora|grammar|schema|slot|encoder|image|remote|session|budget|needs|wants|lacks"
_SLOTS = r"max (cpu )?loras?|adapter slots|loras?\b|running lora|adapters"


def by_reservation(now: Activity) -> Verdict | None:
    """What runs was promised so much room for its answer that the others do not fit beside it,
    though most of that room is free."""
    one = told_number(now.window, _ITS_ANSWER)
    others = told_number(now.window, _THEIR_ANSWERS)
    wanted, least = number_of(one), number_of(others)
    running, waiting, kv = now.running, now.waiting, now.kv
    if one is None or others is None or wanted is None or least is None:
        return None
    if running is None or waiting is None or kv is None or wanted < LONGER * least:
        return None
    if running.last.value > _FEW or waiting.last.value <= 0 or kv.max >= ROOM:
        return None
    argument = Argument(now.window)
    argument.series(waiting, "they wait behind it")
    argument.series(running, f"of {now.seats:.0f} seats" if now.seats else "")
    argument.series(kv, "most blocks are free")
    _cite_promise(argument, now, one, wanted)
    argument.fact(others, "the waiting ones want little")
    for signal in (Signal.KV_BLOCKS, Signal.KV_BLOCKS_FREE):
        for series in now.window.all_series(signal):
            argument.series(series)
    argument.fact(told(now.window, r"policy|evict|reserv"))
    argument.against("queue.blocked: what runs makes progress")
    argument.against("queue.never_fits: it fits, and holds the others up while it runs")
    remedy = "Cap max_tokens, or let the scheduler promise less than the worst case."
    detail = "one request's answer is reserved whole"
    sure = is_sustained(waiting, LEAST_SECONDS) and waiting.change >= 0
    confidence = Confidence.CERTAIN if sure else Confidence.LIKELY
    return argument.verdict(confidence, detail=detail, remedy=remedy)


def _cite_promise(argument: Argument, now: Activity, answer: Fact, tokens: float) -> None:
    """How much of the cache is kept free for one answer of so many tokens."""
    room = now.room_of_one
    promised = f", {tokens / room * 100:.0f} % of the cache, is promised to it" if room else ""
    argument.fact(answer, f"room for its whole answer{promised}")


def by_what_the_head_lacks(now: Activity) -> Verdict | None:
    """The first in the queue waits for something that those behind it do not need."""
    head = told(now.window, _HEAD_WANTS)
    behind = told_all(now.window, _BEHIND)
    waiting, running, kv = now.waiting, now.running, now.kv
    if head is None or waiting is None or waiting.last.value <= 0 or now.is_full:
        return None
    if number_of(head) is not None and head.value is not None and not behind:
        return None
    if not re.search(_LACKS, f"{head.raw} {' '.join(plain(fact.key) for fact in behind)}".lower()):
        return None
    if now.has_all_seats_taken or running is None or running.last.value <= 0:
        return None
    argument = Argument(now.window)
    argument.fact(head, "it waits for something of its own")
    for fact in behind:
        argument.fact(fact, "behind it")
    for fact in told_all(now.window, _SLOTS):
        argument.fact(fact)
    argument.series(waiting)
    argument.series(running, f"of {now.seats:.0f} seats" if now.seats else "")
    argument.series(kv, "there is room")
    argument.against("queue.blocked: what runs makes progress")
    argument.against("queue.overload: seats and blocks are free")
    remedy = "More of what the head waits for, or a scheduler that goes on past it."
    if not behind and _passes(waiting):
        argument.need("for how long the first in the queue waits, and what waits behind it")
        return argument.verdict(Confidence.POSSIBLE, detail=head.raw, remedy=remedy)
    sure = bool(behind) and now.is_moving is not False
    confidence = Confidence.CERTAIN if sure else Confidence.LIKELY
    return argument.verdict(confidence, detail=head.raw, remedy=remedy)


def _passes(waiting: Series) -> bool:
    """The queue was read over time, and was empty in between: whoever is first in it moves on."""
    stays = is_sustained(stretch_while(waiting, lambda value: value > 0), LEAST_SECONDS)
    return len(waiting.readings) > 1 and not stays
