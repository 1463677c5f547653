"""Speeds and times whose definition changed under the reader: what they leave out, or divide by."""

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.contrast import Contrast, contrasts
from controlplane.diagnosis.views.told import number_of, told_all, told_number
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.speeds import TOKENS_A_SECOND
from dataplane.engine_metrics.signal import Signal

_ADDS_UP = 0.05
"""Of the whole: two medians do not add up exactly, and three small figures do so by chance."""
_FROM_ARRIVAL = ("vllm", "sglang")
"""Engines whose TTFT begins as a request arrives, and so holds its wait."""
_MUCH_LESS = 0.6
_NO_WORSE = 1.1
_SLOWER = 1.3
_SEVERAL = 1.3
"""Tokens in one output."""
_MORE_REUSED = 0.15


def without_the_queue(argument: Argument, now: Activity) -> Confidence | None:
    """An engine's TTFT that begins when a request is scheduled: queue and it are the client's."""
    window = now.window
    if window.engine is None or window.engine.name in _FROM_ARRIVAL:
        return None
    client = told_number(
        window, r"(client|curl|user|edge|gateway)\b.*ttft|ttft.*(client|user|edge)"
    )
    engine = told_number(
        window,
        r"(engine|server|prometheus|metric|dashboard|panel|exported)\b.*ttft|ttft.*(engine|server)",
    )
    queue = told_number(
        window, r"queue( \w+)* (time|wait)|wait( \w+)* (queue|time)|queue wait|queued for"
    )
    whole, part, wait = number_of(client), number_of(engine), number_of(queue)
    if client is None or engine is None or queue is None or not whole or not part or not wait:
        return None
    if part > _MUCH_LESS * whole or abs(part + wait - whole) > _ADDS_UP * whole:
        return None
    argument.says(f"{says(engine)} + {says(queue)} = {says(client)}: it begins after the queue")
    argument.series(now.waiting)
    argument.against("telemetry.stale: both figures move")
    return Confidence.CERTAIN


def reused_over_whole_time(argument: Argument, now: Activity) -> Confidence | None:
    """Prefill speed of uncached tokens over the whole time falls as more is reused, and nobody
    waits longer."""
    window = now.window
    speed = _worst(window, r"(prefill|prompt|input).*(tok|per s|tps|speed|throughput)")
    reuse = contrasts(window, r"hit (rate|ratio)|cached|reuse", is_share=True)
    times = contrasts(window, r"ttft|latency|prefill (time|s)$|first token")
    more = [each for each in reuse if each.value - each.base_value >= _MORE_REUSED]
    if speed is None or speed.factor > _MUCH_LESS or not more or not times:
        return None
    if any(each.factor > _NO_WORSE for each in times):
        return None
    for contrast in (speed, *more, *times):
        argument.says(contrast.says)
    argument.against("interference.prefill and host.bound: first tokens come no later")
    argument.against("cache.prefix_loss: more is reused than before")
    return Confidence.LIKELY


def several_tokens_an_output(argument: Argument, now: Activity) -> Confidence | None:
    """A gap between outputs that hold several tokens each is no gap between tokens."""
    window = now.window
    gaps = _worst(
        window, r"\bitl\b|inter token|between (tokens|chunks|outputs)|chunk gap", most=True
    )
    speed = contrasts(window, TOKENS_A_SECOND)
    num = told_number(
        window,
        r"(tokens?|accept\w*).*(per|an|each) (chunk|output|step|event|update)|accept\w* len\w*|"
        r"stream interval",
    )
    several = number_of(num)
    if gaps is None or gaps.factor < _SLOWER or not speed or not several or several < _SEVERAL:
        return None
    if any(each.factor < 1.0 for each in speed):
        return None
    for contrast in (gaps, *speed):
        argument.says(contrast.says)
    argument.fact(num)
    each_token = gaps.value / several
    argument.says(f"{number(gaps.value)} / {number(several)} = {number(each_token)} s a token")
    for change in window.changes:
        argument.change(change)
    argument.against("interference.prefill: more tokens come than before")
    return Confidence.CERTAIN


def _worst(window: Window, pattern: str, *, most: bool = False) -> Contrast | None:
    found = contrasts(window, pattern)
    order = sorted(found, key=lambda contrast: contrast.factor, reverse=most)
    return order[0] if order else None


def part_above_the_whole(argument: Argument, now: Activity) -> Confidence | None:
    """A stage of requests that took longer than the requests: an observation that cannot be. Of
    stages that are observed when a request ends alone: first tokens and queues of an overload come
    long before the ends of their requests."""
    whole = now.window.find_histogram(Signal.E2E)
    if whole is None or whole.observed.count <= 0:
        return None
    for signal in (Signal.DECODE_TIME, Signal.PREFILL_TIME, Signal.QUEUE_TIME):
        part = now.window.find_histogram(signal)
        if part is None or part.observed.count <= 0 or part.origin.name not in _AT_THE_END:
            continue
        if part.observed.count > _AS_MANY * whole.observed.count:
            continue
        if part.observed.sum < _ABOVE * max(whole.observed.sum, 1.0):
            continue
        argument.says(
            f"{part.origin.name}: the sum of {number(part.observed.count)} rises by "
            f"{number(part.observed.sum)} s, that of {whole.origin.name} by "
            f"{number(whole.observed.sum)} s"
        )
        uptime = told_number(now.window, r"uptime|since boot|process age|monotonic")
        value = number_of(uptime)
        argument.fact(uptime)
        for fact in told_all(now.window, r"e2e|abort|p9\d|objective"):
            argument.fact(fact)
        argument.against("engine.hung and interference.prefill: requests end as soon as before")
        is_uptime = value is not None and abs(part.observed.sum - value) <= _NEAR * value
        return Confidence.CERTAIN if is_uptime else Confidence.LIKELY
    return None


_AT_THE_END = frozenset(
    {
        "vllm:request_decode_time_seconds",
        "vllm:request_prefill_time_seconds",
        "vllm:request_queue_time_seconds",
        "vllm:request_inference_time_seconds",
    }
)
"""Observed together with the whole of a request."""
_AS_MANY = 1.2
_ABOVE = 2.0
_NEAR = 0.02
