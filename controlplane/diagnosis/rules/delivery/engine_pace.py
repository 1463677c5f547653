"""Whether the engine made its tokens in time: what both ways of late delivery ask."""

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.contrast import contrasts
from controlplane.diagnosis.views.course import late
from controlplane.diagnosis.views.device import device_usage
from controlplane.diagnosis.views.means import reckoned
from controlplane.diagnosis.views.preempting import preempting
from controlplane.diagnosis.views.told import told_number
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_FAST_SECONDS = 0.1
"""Between tokens: ten a second is faster than people read."""
_SHORT_WAIT = 0.5
"""In the engine's queue: requests are taken as they come."""
_LATER = 1.5
"""At the client against at the engine: a network adds milliseconds."""
_AT_ENGINE = (
    r"\b(engine\w*|server|backend|upstream|vllm|sglang|worker|core|scheduler|model|generated"
    r"|internal|inside)\b"
)
_AT_CLIENT = (
    r"\b(client\w*|user|edge|gateway|observed|seen|received|delivered|browser|proxy|front\w*"
    r"|outside"
    r"|consumer|end)\b"
)
_PACE = r"decode.*per s|generation.*per s|decode step|engine.*\b(tokens|tok)\b.*per s"


def is_engine_fine(argument: Argument, window: Window) -> bool | None:
    """False where the engine itself is late; None where nothing tells."""
    now = activity_of(window)
    thrown = preempting(now)
    if now.is_full or (thrown is not None and thrown.is_costly):
        return False
    if now.waiting is not None and now.waiting.last.value > 0:
        return False
    if _crawls(now):
        return False
    usage = device_usage(window)
    is_fine = None
    for signal in (Signal.ITL, Signal.TPOT):
        histogram = window.find_histogram(signal)
        mean = None if histogram is None else histogram.mean
        if histogram is not None and mean is not None:
            argument.histogram(
                histogram,
                mean,
                f"{histogram.origin.name}: mean {mean * 1000:.3g} ms, {reckoned(histogram)}: the "
                "engine keeps its pace",
            )
            is_fine = mean <= _FAST_SECONDS
            break
    if is_fine is None:
        told_itl = told_number(
            window,
            rf"(?=.*{_AT_ENGINE})(?=.*\b(itl|tpot|inter token|per token|decode|step)\b)",
            r"^(decode|engine|model|gpu) step|^step (time|ms)|^step$",
        )
        if told_itl is not None and told_itl.value is not None:
            argument.fact(told_itl, "the engine keeps its pace")
            is_fine = told_itl.value <= _FAST_SECONDS
    if usage is not None:
        argument.says(usage.says)
    if is_fine is None:
        for contrast in contrasts(window, _PACE):
            if contrast.base.key == contrast.other.key and 0.9 <= contrast.factor <= 1.1:
                argument.says(f"{contrast.says}: the engine keeps its pace")
                is_fine = True
    spent, made = window.find(Signal.GENERATION_SECONDS), window.find(Signal.GENERATION_TOKENS)
    if is_fine is None and spent is not None and made is not None:
        seconds, tokens = spent.increase, made.increase
        if seconds and tokens:
            argument.says(f"{seconds / tokens * 1000:.3g} ms a token at the engine")
            is_fine = seconds / tokens <= _FAST_SECONDS
    for event in window.events_of(LogKind.GENERATED)[-1:]:
        seconds, tokens = event.fields.get("seconds"), event.fields.get("tokens")
        if is_fine is None and seconds and tokens:
            argument.says(event.line.strip()[:160])
            is_fine = seconds / tokens <= _FAST_SECONDS
    queue = window.find_histogram(Signal.QUEUE_TIME)
    waited = None if queue is None else queue.mean
    if is_fine is None and queue is not None and waited is not None:
        sentence = f"{queue.origin.name}: {waited:.3g} s on average, {reckoned(queue)}"
        argument.histogram(queue, waited, sentence)
        is_fine = waited <= _SHORT_WAIT
    if is_fine is None and now.waiting is not None and now.has_room and now.running is not None:
        is_fine = True if now.running.last.value > 0 else None
    if is_fine is None and usage is not None and now.waiting is not None:
        return usage.value < 0.9
    return is_fine


def _crawls(now: Activity) -> bool:
    """Each request gets its tokens more slowly than anybody reads."""
    decode, running = now.decode, now.running
    if decode is None or running is None or late(running) <= 0:
        return False
    return 0 < late(decode) < _CRAWL * late(running)


_CRAWL = 2.0
"""Tokens a second for each that runs."""


def late_delivery(argument: Argument, window: Window) -> bool:
    """Later at the client than at the engine, where both were measured."""
    pattern = r"itl|tpot|inter token|per token|ttft|e2e|latency|duration|last token|time|gap|tok"
    found = False
    for contrast in contrasts(window, pattern, base=_AT_ENGINE, other=_AT_CLIENT):
        if contrast.base.key == contrast.other.key:
            continue
        is_speed = "per s" in contrast.other.key.replace("_", " ")
        factor = 1 / contrast.factor if is_speed and contrast.factor else contrast.factor
        if factor >= _LATER:
            argument.says(contrast.says)
            found = True
    return found or _histograms_differ(argument, window)


def _histograms_differ(argument: Argument, window: Window) -> bool:
    engine, outside = window.find_histogram(Signal.TPOT), window.find_histogram(Signal.GATEWAY_TPOT)
    inner = None if engine is None else engine.mean
    outer = None if outside is None else outside.mean
    if engine is None or outside is None or not inner or not outer or outer < _LATER * inner:
        return False
    argument.histogram(
        outside,
        outer,
        f"{outside.origin.name}: mean {outer * 1000:.3g} ms against {inner * 1000:.3g} ms of "
        f"{engine.origin.name}",
    )
    return True
