"""Work that is sent batch by batch, each only when the whole one before it has ended.

What runs is then a saw: full at first, with more waiting than fits, then fewer and fewer while the
longest answers of the batch are awaited, and full again. Waves of callers look the same, but nobody
has work left at their ends; and a client that cannot send faster never fills the engine.
"""

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import Reading, Series
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.slowdown import slowdowns
from controlplane.diagnosis.views.told import number_of, says_yes, told_all
from controlplane.diagnosis.window import Window

_LEAST_PEAK = 8.0
_TAIL = 0.2
"""Of the most that ran: the last few of a batch."""
_FULL_AGAIN = 0.7
_SLOWER = 1.15
_LESS = 0.5
"""Of the pace of the full batch: the tail is paid for."""
_WORK = (
    r"(prompts?|rows?|items?|requests?|documents?|docs|jobs?|tasks?|records?|images?|samples?"
    r"|inputs?|pages|files|work|dataset|questions?|queries|examples?|entries|texts?|cases?|articles"
    r"|sentences?|pairs|calls|lines)"
)
_LEFT = (
    r"(not (yet )?(sent|submitted|started|done|answered|asked)|un(answered|asked|processed|scored)"
    r"|unsent|unsubmitted|left|remaining|remain"
    r"|outstanding|to (do|go|send|submit|process|be sent)|still)"
)
_MORE = rf"\b{_WORK}\b.*\b{_LEFT}\b|\b{_LEFT}\b.*\b{_WORK}\b"
_NOT_MORE = r"tokens?|memory|kv|blocks|context|in flight|server|engine|retries|seconds|time|queue"
_BATCH = r"(batch(es)?|chunks?|portions?|blocks of work)"
_AT_ONCE = r"(in flight|at once|at a time|concurren\w*|parallel|simultaneous\w*|inflight)"
_BATCHES_AT_ONCE = rf"\b{_BATCH}\b.*\b{_AT_ONCE}\b|\b{_AT_ONCE}\b.*\b{_BATCH}\b"


def in_tails(argument: Argument, now: Activity) -> Verdict | None:
    """LIKELY where what runs falls to a tail and is filled again, while there was more to send."""
    running = now.running
    if running is None or running.max < _LEAST_PEAK:
        return None
    tails = _tails(now, running)
    more, single = _left_over(now.window), _one_batch(now.window)
    if not tails or (more is None and single is None):
        return None
    argument.series(running, f"it falls to {_told(tails)} and is filled again")
    argument.series(now.waiting, "nothing waits meanwhile")
    argument.fact(more, "there is more to do")
    argument.fact(single, "the next batch waits for the last answer of this one")
    for change in now.window.changes:
        argument.change(change)
    costs = _falls(now, running, tails)
    argument.series(now.decode)
    argument.series(now.kv)
    for slow in slowdowns(now.window)[:2]:
        if slow.factor >= _SLOWER:
            argument.says(slow.says)
            costs = True
    argument.against("load.generator_bound: when it sends, it sends more than is let in")
    argument.against("queue.burst_draining: those who come next are there already, and not sent")
    if costs:
        return argument.verdict(Confidence.LIKELY, detail="batch by batch", remedy=_REMEDY)
    argument.need("tokens generated over time")
    return argument.verdict(Confidence.POSSIBLE, detail="batch by batch", remedy=_REMEDY)


_REMEDY = (
    "Small batches and many of them at once, or single requests with a bound on those in flight, "
    "so that the tail of one is filled with the next."
)


def _tails(now: Activity, running: Series) -> list[Reading]:
    """Readings of a few that run, with nobody waiting, between or after two full ones."""
    full = [each.at for each in running.readings if each.value >= _FULL_AGAIN * running.max]
    found = []
    for reading in running.readings:
        if reading.value > _TAIL * running.max or not full or full[0] > reading.at:
            continue
        waiting = None if now.waiting is None else now.waiting.at(reading.at)
        if waiting is None or waiting.value == 0:
            found.append(reading)
    return found if found and full[-1] > found[0].at else []


def _told(tails: list[Reading]) -> str:
    return ", ".join(number(each.value) for each in tails[:4])


def _left_over(window: Window) -> Fact | None:
    found = [
        fact
        for fact in told_all(window, _MORE, without=_NOT_MORE)
        if (number_of(fact) or 0.0) > 0 and fact.unit is None
    ]
    return found[-1] if found else None


def _one_batch(window: Window) -> Fact | None:
    """Told as the number of batches at once, and not how many each holds."""
    waits = told_all(window, _WAITS_FOR_ALL)
    found = told_all(window, _BATCHES_AT_ONCE, without=r"size|seqs|tokens|per batch")
    single = [fact for fact in found if number_of(fact) == 1]
    return next((fact for fact in (*single, *waits) if fact in single or says_yes(fact)), None)


_WAITS_FOR_ALL = (
    r"\b(await\w*|wait\w*|barrier|joins?|gathers?|sync\w*)\b.*\b(whole|entire|full|all|each|every)\b"
    rf".*\b({_BATCH}|answers|of it)\b"
)


def _falls(now: Activity, running: Series, tails: list[Reading]) -> bool:
    """Tokens come far more slowly in the tail than with a full batch."""
    if now.decode is None:
        return False
    paces = [pace.value for each in tails if (pace := now.decode.at(each.at)) is not None]
    return bool(paces) and min(paces) <= _LESS * now.decode.max
