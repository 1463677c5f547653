"""Tokens are there and the server's own front end does not get them out."""

import itertools
import re

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.delivery.engine_pace import is_engine_fine, late_delivery
from controlplane.diagnosis.rules.delivery.way_out import (
    all_at_once,
    by_a_timer,
    comes_in_lumps,
    late_without_engine,
    leaves_at_the_end,
    sends_less,
)
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import rate_of
from controlplane.diagnosis.views.device import BUSY_CORE, cpu_of, is_device_idle
from controlplane.diagnosis.views.figure import Figure
from controlplane.diagnosis.views.slowdown import slowdowns
from controlplane.diagnosis.views.told import number_of, plain, says_no, told, told_all, told_number
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, Unit

_FRONT = (
    r"front\w*|api( server)?|apiserver|http|tokenizer( manager)?|detokenizer|uvicorn|event loop"
    r"|proxy"
    r"|litellm|kong|traefik|haproxy|apisix|envoy|gunicorn|fastapi|triton front\w*|ray serve|web ?ui"
    r"|gateway|router|server process|serving|ingress|actor|nginx|envoy|balancer|preprocess\w*"
    r"|render\w*"
)
_ENGINE = r"engine( core)?|enginecore|scheduler|core|worker"
_GROWS = 3.0
"""Times as long under more load, where the engine's own pace stays."""
_LOOP = (
    r"event ?loop.*(lag|block|delay|stall|latency)|loop (lag|delay)|executing <task.* took"
    r"|(asyncio|slow callback).*(took|seconds)|output (pull|handler|queue)|asyncio.*blocked"
)
_LAG_SECONDS = 0.1
_INSIDE = (
    r"\b(inside|within|in|between|before|held|stuck|at|waiting)\b.*\b(front ?end|ingress|http"
    r"|entry|api"
    r" servers?|tokeni[sz]\w*|preprocess\w*|render\w*|proxy|event loop|balancer|router"
    r"|detokeni[sz]\w*)"
    r"\b|\b(tokeni[sz]\w*|preprocess\w*|render\w*|detokeni[sz]\w*|template)\b.*\b(ms|s|time|queue"
    r"|wait)\b"
)
_LONG_SECONDS = 0.5
"""A front end that is not bound takes milliseconds."""
_MANY = 8
_HALF = 0.5
_CLEARLY = 1.3
_AROUND = (
    r"\b(straight|direct(ly)?|bypass\w*|without (the )?(gateway|ingress|proxy|router|balancer"
    r"|front)"
    r"|at (the )?(replicas?|engines?|workers?|pods?)|no (gateway|proxy|router|ingress))\b"
)
_THROUGH = (
    r"\b(through|via|behind|with|over)( the)?( \w+)?"
    r"|\b(gateway|ingress|proxy|router|balancer|front)\b"
)


def judge(window: Window) -> Verdict | None:
    """LIKELY where the front end is busy, or the way out gets longer with streams, while the engine
    keeps its pace and clients take what they get."""
    argument = Argument(window)
    busy = _busy_front(argument, window)
    lumps = comes_in_lumps(argument, window)
    outpaced = [look(argument, window) for look in (sends_less, all_at_once)]
    seen = [busy is not None, lumps, *outpaced, *(look(argument, window) for look in _LOOKS)]
    if not any(seen):
        return None
    blocked = told(window, r"client\w*.*block|block\w*.*client|slow clients")
    if blocked is not None and not says_no(blocked) and (number_of(blocked) or 0.0) > 0:
        return None
    core = cpu_of(window, _ENGINE, other_than=_FRONT)
    if core is not None and _is_engine_as_busy(argument, core, busy):
        return None
    fine = _keeps_its_pace(argument, window)
    if fine is False:
        return None
    if core is not None:
        argument.fact(core.fact, "the engine waits")
    late = late_delivery(argument, window)
    _cite(argument, window)
    if blocked is not None:
        argument.fact(blocked)
        argument.against("delivery.slow_client: no client blocks")
    idle = is_device_idle(window)
    signs = sum(map(bool, (*seen, late, fine, blocked is not None, idle, core)))
    in_time = fine or any(outpaced)
    if in_time and signs + any(outpaced) >= _SIGNS_FOR_CERTAIN:
        return argument.verdict(Confidence.CERTAIN)
    is_seen = signs >= _SIGNS and (in_time or core is not None or idle)
    if lumps or is_seen:
        return argument.verdict(Confidence.LIKELY)
    argument.need(
        *(() if in_time else ("time between tokens at the engine",)),
        *(() if busy else ("CPU of the front process, by thread",)),
        *(() if blocked is not None else ("clients that block on write",)),
    )
    return argument.verdict(Confidence.POSSIBLE)


def _is_engine_as_busy(argument: Argument, core: Figure, front: Figure | None) -> bool:
    """What the front end is accused of may as well be the engine's own process."""
    if core.value < BUSY_CORE:
        return False
    argument.against(f"the engine's own process is busy too ({core.says})")
    return front is None or core.value >= front.value


def _keeps_its_pace(argument: Argument, window: Window) -> bool | None:
    """Slow as its tokens may be, without what stands before the engine they come in time."""
    fine = is_engine_fine(argument, window)
    if fine is False and _is_fast_around(window) and _takes_all(window):
        return True
    return fine


_SIGNS = 3
_SIGNS_FOR_CERTAIN = 5
"""Of a dozen independent ones, the engine's pace among them."""


def _inside(argument: Argument, window: Window) -> bool:
    """Requests that are neither at the engine nor at the client, or the time that they spend so."""
    found = False
    for fact in told_all(window, _INSIDE, without=r"cpu|process(es)?$|workers|max wait|timeout"):
        value = number_of(fact) or 0.0
        is_long = fact.unit is Unit.SECONDS and value >= _LONG_SECONDS
        is_many = fact.unit is not Unit.SECONDS and value >= _MANY
        if is_long or is_many:
            argument.fact(fact, "before the engine sees them")
            found = True
    now = activity_of(window)
    sent = told_number(window, r"^(client )?(concurren\w*|streams|connections|clients)$|in ?flight")
    many = number_of(sent)
    if now.running is None or now.waiting is None or sent is None or many is None or not found:
        return found
    at_engine = now.running.last.value + now.waiting.last.value
    if many >= _MANY and at_engine <= _HALF * many:
        argument.says(f"{sent.key} {sent.raw}, and {number(at_engine)} are at the engine")
    return found


def _faster_around(argument: Argument, window: Window) -> bool:
    """The same engines without what stands before them."""
    for slow in slowdowns(window, base=_AROUND, other=_THROUGH):
        if slow.factor >= _CLEARLY and re.search(_AROUND, slow.contrast.keys):
            argument.says(slow.says)
            return True
    return False


def _is_fast_around(window: Window) -> bool:
    """Many times as fast without what stands before the engines."""
    return any(
        slow.factor >= _FAR_FASTER and re.search(_AROUND, slow.contrast.keys)
        for slow in slowdowns(window, base=_AROUND, other=_THROUGH)
    )


_FAR_FASTER = 5.0


def _takes_all(window: Window) -> bool:
    """Nothing waits for the engine, and its cache is not full."""
    now = activity_of(window)
    return now.waiting is not None and now.waiting.last.value == 0 and not now.is_full


def _busy_front(argument: Argument, window: Window) -> Figure | None:
    busy = cpu_of(window, _FRONT)
    if busy is not None:
        if busy.value < BUSY_CORE:
            return None
        argument.fact(busy.fact, "one event loop can use one core")
        return busy
    rate = rate_of(window.find(Signal.PROCESS_CPU), Signal.PROCESS_CPU, window)
    if rate is None or rate.last.value < BUSY_CORE:
        return None
    sentence = f"{rate.origin.name} {rate.last.raw}: seconds of CPU a second"
    argument.says(sentence)
    return Figure(rate.last.value, sentence)


def _grows_with_streams(argument: Argument, window: Window) -> bool:
    """`output_pull_ms_at_1: 51` and `output_pull_ms_at_48: 2416`: a time that grows with load and
    is none of the engine's."""
    facts = [
        fact
        for fact in window.facts
        if fact.load is not None and fact.unit is Unit.SECONDS and fact.value
    ]
    for one, two in itertools.combinations(facts, 2):
        low, high = sorted((one, two), key=lambda fact: fact.load or 0.0)
        same = _stem(low.key) == _stem(high.key)
        if not same or (low.value or 0.0) <= 0 or low.load == high.load:
            continue
        if (high.value or 0.0) >= _GROWS * (low.value or 0.0):
            argument.says(f"{says(low)}, {says(high)}: it grows with the streams")
            return True
    return False


def _stem(key: str) -> str:
    return re.sub(r"\bat \d+\b", "", plain(key)).strip()


def _lags(argument: Argument, window: Window) -> bool:
    found = False
    for fact in told_all(window, r"(event )?loop (lag|delay|block\w*|stall\w*|latency)"):
        if (number_of(fact) or 0.0) >= _LAG_SECONDS:
            argument.fact(fact)
            found = True
    for line in window.lines_with(_LOOP)[-2:]:
        argument.says(line.strip()[:200])
        found = True
    return found


def _cite(argument: Argument, window: Window) -> None:
    now = activity_of(window)
    argument.series(now.running)
    argument.series(now.waiting)
    argument.series(now.kv)
    argument.fact(told_number(window, r"^(num )?(concurrent )?(streams|connections|clients)$"))
    for change in window.changes:
        argument.says(f"change: {change.what}")
    argument.against("host.bound: the engine's own steps are in time")
    argument.against("queue.overload: nothing waits for the engine")


_LOOKS = (
    _grows_with_streams,
    _lags,
    _inside,
    _faster_around,
    leaves_at_the_end,
    by_a_timer,
    late_without_engine,
)


FRONT_END_BOUND = Rule(
    id="delivery-front-end-bound",
    mechanism=Mechanism.DELIVERY_FRONT_END_BOUND,
    judge=judge,
    needs=(
        "CPU of the front process, or a time of delivery that grows with streams",
        "time between tokens at the engine",
        "clients that block on write",
    ),
    told_apart="From slow clients by none that blocks, from a busy host by an engine process that "
    "idles, from overload by nothing that waits for the engine.",
    remedy="More front-end processes, and blocking work off the event loop; fewer, larger chunks.",
    hides="Fewer streams at once hide it; more engines behind one front end change nothing.",
)
