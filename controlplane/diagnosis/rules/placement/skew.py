"""Some replicas or ranks have much more work than others."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.placement.idle_places import idle_places
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course_parts import recent_rate
from controlplane.diagnosis.views.phases import phases_of, role_of
from controlplane.diagnosis.views.pool import are_one_pool
from controlplane.diagnosis.views.spread import Spread, spread_of
from controlplane.diagnosis.views.stepless import need_of_stepless
from controlplane.diagnosis.views.told import told, told_all
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_FEWEST_EACH = 2.0
"""Requests for each place on average: fewer cannot be spread evenly."""
_TWICE = 1.9
"""A fair share: chance spreads tens of requests within half of it."""
_OF_TWO = 0.85
_IDLE = 0.25
"""Of a fair share: as good as nothing to do."""
_LEAST_SECONDS = 20.0
_OF_WORK = 1.6
"""Times a fair share, of what was done in half a minute."""
_LEAST_DONE = 20.0
_LEAST_QUEUE = 8.0
_LESS_FULL = 0.8
_MANY_EACH = 8.0
_MOST = 0.65
_LOAD = (
    r"(?=.*\b(running|active|in ?flight|requests?|load|routed|assigned|rps|streams|share"
    r"|traffic)\b)"
    r"(?!.*\b(max|limit|total|finished|prompt|longest|p\d\d|ms)\b)"
    r"|^(replicas?|rep|workers?|ranks?|pods?|engines?|dp|instances?|inst|nodes?|servers?|backends?"
    r"|vllm|sglang|[a-dprwe]) ?\d{1,2}$"
)
_QUEUES = r"waiting|queue|pending|backlog"
_USAGE = r"(kv|cache|token) ?(cache )?(usage|util\w*)"
_WHY = (
    r"rout|balanc|affinit|sticky|hash|session|round.?robin|least|score|weight|ingress|statistics"
    r"|replica|scal|drain"
)


def judge(window: Window) -> Verdict | None:
    """CERTAIN where some idle beside one that has most, over time or with requests that wait
    there."""
    if _is_split_by_phase(window):
        return None
    idle = idle_places(window)
    if idle is not None:
        return idle
    load = spread_of(window, Signal.RUNNING, _LOAD)
    waiting = spread_of(window, Signal.WAITING, _QUEUES)
    argument = Argument(window)
    if load is None and waiting is None:
        return _by_work_alone(argument, window)
    uneven = _uneven_load(argument, window, load)
    queue = _uneven_queue(window, waiting, load)
    if uneven is None and queue is not None and _is_only_slower(window, queue.top):
        queue = None
    chosen = uneven or queue
    if chosen is None:
        return None
    for spread in (load, waiting, spread_of(window, Signal.KV_USAGE, _USAGE)):
        if spread is not None:
            argument.across(spread.series, spread.says)
    _cite(argument, window, load)
    detail = f"{chosen.top} has {chosen.top_share * 100:.0f} %"
    still = need_of_stepless(window, chosen.top)
    if still is not None or not are_one_pool(window, chosen.by_place):
        argument.need(still or "whether each of them is meant to have as much as the others")
        return argument.verdict(Confidence.POSSIBLE, detail=detail)
    confidence = _how_sure(uneven, has_queue_there=queue is not None and queue.least == 0)
    if confidence is Confidence.POSSIBLE:
        argument.need(
            "requests running and waiting by replica over a minute", "how requests are routed"
        )
    return argument.verdict(confidence, detail=detail)


def _uneven_load(argument: Argument, window: Window, load: Spread | None) -> Spread | None:
    """By what runs, or where that is less uneven by what was done of late as well."""
    if load is None or _is_uneven(load):
        return load
    work = _work(window)
    if work is None or load.top != work.top or load.top_share < _OF_WORK / len(load.by_place):
        return None
    argument.says(work.says)
    return load


def _uneven_queue(window: Window, waiting: Spread | None, load: Spread | None) -> Spread | None:
    if waiting is None:
        return None
    usage = spread_of(window, Signal.KV_USAGE, _USAGE)
    return waiting if _is_queue_uneven(waiting, load, usage) else None


def _how_sure(uneven: Spread | None, *, has_queue_there: bool) -> Confidence:
    """By how much of what runs is in one place, and for how long."""
    if uneven is None:
        return Confidence.LIKELY if has_queue_there else Confidence.POSSIBLE
    lasts = uneven.seconds >= _LEAST_SECONDS
    is_extreme = _is_extreme(uneven)
    if is_extreme and (lasts or uneven.was_even):
        return Confidence.CERTAIN
    if has_queue_there and uneven.idle:
        return Confidence.CERTAIN
    return Confidence.LIKELY if lasts or has_queue_there or is_extreme else Confidence.POSSIBLE


def _is_extreme(load: Spread) -> bool:
    """One has most while others have nothing, or half of them have nothing of much."""
    places = len(load.by_place)
    has_most = load.top_share >= _MOST and (bool(load.idle) or load.total >= _LEAST_DONE * places)
    is_half_idle = 2 * len(load.idle) >= places and load.total >= _MANY_EACH * places
    return has_most or is_half_idle


def _by_work_alone(argument: Argument, window: Window) -> Verdict | None:
    """Counters of two moments, and no gauges: one place did nearly all that was done."""
    work = _work(window)
    if work is None or window.end - window.start < _LEAST_SECONDS:
        return None
    if work.top_share < _NEARLY_ALL or work.least > _IDLE * work.mean:
        return None
    argument.says(work.says)
    for signal in (Signal.FINISHED, Signal.RECEIVED, Signal.PREFIX_QUERIES):
        for series in window.all_series(signal):
            place = ", ".join(series.labels.values())
            raws = f"{series.first.raw} -> {series.last.raw}"
            argument.across((series,), f"{series.origin.name} {place} {raws}")
    policy = told_all(window, r"policy|round robin|split|session|workers|replicas|pick|active")
    for fact in policy:
        argument.fact(fact)
    _cite(argument, window, None)
    detail = f"{work.top} did {work.top_share * 100:.0f} %"
    if policy:
        return argument.verdict(Confidence.CERTAIN, detail=detail)
    argument.need("whether the idle one is ready and meant to get requests")
    return argument.verdict(Confidence.LIKELY, detail=detail)


_NEARLY_ALL = 0.85


def _is_only_slower(window: Window, place: str) -> bool:
    """Its queue is longer because it does less, and not because more comes to it."""
    received = _done_of_late(window, Signal.RECEIVED)
    if place in received and sum(received.values()) >= _LEAST_DONE:
        return received[place] <= _MORE * sum(received.values()) / len(received)
    for signal in (Signal.FINISHED, Signal.GENERATION_TOKENS):
        done = _done_of_late(window, signal)
        if place in done and len(done) > 1 and sum(done.values()) >= _LEAST_DONE * len(done):
            return done[place] < _LESS * sum(done.values()) / len(done)
    return False


_MORE = 1.2
_LESS = 0.75
"""Of a fair share: chance spreads tens of requests within a quarter."""


def _done_of_late(window: Window, signal: Signal) -> dict[str, float]:
    """By each place, in about a third of the window."""
    done: dict[str, float] = {}
    for series in window.all_series(signal):
        place = series.labels.get("replica") or series.labels.get("engine")
        rate = recent_rate(series, window)
        rate = series.per_second if rate is None else rate
        if place is not None and rate is not None:
            third = (window.end - window.start) / 3
            done[place] = done.get(place, 0.0) + rate * third
    return done


def _work(window: Window) -> Spread | None:
    """What each place did of late, where that is uneven and much enough to be no chance."""
    for signal in (Signal.RECEIVED, Signal.FINISHED, Signal.GENERATION_TOKENS):
        done = _done_of_late(window, signal)
        total = sum(done.values())
        if len(done) < 2 or total < _LEAST_DONE * len(done):
            continue
        says = "/".join(f"{value:.0f}" for value in done.values())
        name = window.all_series(signal)[0].origin.name
        spread = Spread(
            name=name,
            by_place=done,
            before={},
            seconds=(window.end - window.start) / 3,
            says=f"{name} {says} of late by replica ({', '.join(done)})",
        )
        return spread if spread.top_share >= _OF_WORK / len(done) else None
    return None


def _is_split_by_phase(window: Window) -> bool:
    """Prefill and decode workers are not meant to have the same."""
    roles = {role_of(series.labels) for series in window.all_series(Signal.RUNNING)}
    told_apart = told(
        window, r"\bprefill\b.*\b(pool|workers?|replicas?|nodes?|busy|util)"
    ) and told(window, r"\bdecode\b.*\b(pool|workers?|replicas?|nodes?|busy|util)")
    return len(roles - {""}) > 1 or phases_of(window) is not None or told_apart is not None


def _is_uneven(spread: Spread) -> bool:
    places = len(spread.by_place)
    if places < 2 or spread.total < _FEWEST_EACH * places:
        return False
    if places == 2:
        return spread.top_share >= _OF_TWO
    return spread.top_share >= _TWICE / places and spread.least <= _IDLE * spread.mean


def _is_queue_uneven(waiting: Spread, load: Spread | None, kv: Spread | None) -> bool:
    """Requests wait at one place while others have no queue and room to run them."""
    places = len(waiting.by_place)
    quiet_places = [place for place, value in waiting.by_place.items() if value == 0]
    if waiting.total < _FEWEST_EACH * places or 4 * len(quiet_places) < places:
        return False
    queues = [value for value in waiting.by_place.values() if value > 0]
    if min(queues) < _LEAST_QUEUE and waiting.top_share < max(_MOST, 1.5 / places):
        return False
    if load is None or set(load.by_place) != set(waiting.by_place):
        return waiting.least == 0
    quiet = [load.by_place[place] for place, value in waiting.by_place.items() if value == 0]
    if kv is not None and set(kv.by_place) == set(waiting.by_place):
        full = kv.by_place[waiting.top]
        if max(kv.by_place[place] for place in quiet_places) <= _LESS_FULL * full:
            return True
    return bool(quiet) and min(quiet) <= load.by_place[waiting.top] / 2


def _cite(argument: Argument, window: Window, load: Spread | None) -> None:
    now = activity_of(window)
    argument.series(now.in_flight, "as many as before" if load and load.was_even else "")
    if load is not None and load.idle:
        argument.says(f"idle: {', '.join(load.idle)}")
    for change in window.changes_with(_WHY):
        argument.says(f"change: {change.what}")
    argument.against("queue.overload: others have room for what one has too much of")
    argument.against("batch.underfilled: there is enough work, in the wrong place")


SKEW = Rule(
    id="routing-skew",
    mechanism=Mechanism.ROUTING_SKEW,
    judge=judge,
    needs=("requests running and waiting by replica or rank",),
    told_apart="From overload by others that idle, from an underfilled batch by a full one beside "
    "it, from frozen gauges by figures that move.",
    remedy="Balance by what is in flight, with fresh figures; bound affinity so that a full "
    "replica "
    "gives work away.",
    hides="Even spreading gives up prefix hits that affinity had: look at the hit rate after it.",
    explains=frozenset(
        {
            Mechanism.QUEUE_OVERLOAD,
            Mechanism.BATCH_UNDERFILLED,
            Mechanism.CACHE_THRASH,
            Mechanism.CACHE_PREFIX_LOSS,
            Mechanism.PHASE_MISMATCH,
        }
    ),
)
