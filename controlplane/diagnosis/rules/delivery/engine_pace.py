"""Whether the engine made its tokens in time: what both ways of late delivery ask."""

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.contrast import contrasts
from controlplane.diagnosis.views.course import late
from controlplane.diagnosis.views.device import device_usage
from controlplane.diagnosis.views.figure import Figure
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
    if _has_no_room(now) or _crawls(now):
        return False
    is_fine = _by_histogram(argument, window)
    if is_fine is None:
        is_fine = _by_figure(argument, window)
    usage = device_usage(window)
    if usage is not None:
        argument.says(usage.says)
    for look in (_by_steady_speed, _by_counted_seconds, _by_last_answer, _by_its_queue):
        if is_fine is None:
            is_fine = look(argument, window)
    return _by_what_runs(now, usage) if is_fine is None else is_fine


def _has_no_room(now: Activity) -> bool:
    """Requests wait for it, or take memory from each other."""
    thrown = preempting(now)
    if now.is_full or (thrown is not None and thrown.is_costly):
        return True
    return now.waiting is not None and now.waiting.last.value > 0


def _by_histogram(argument: Argument, window: Window) -> bool | None:
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
            return mean <= _FAST_SECONDS
    return None


def _by_figure(argument: Argument, window: Window) -> bool | None:
    """Time between tokens, as somebody measured it at the engine."""
    fact = told_number(
        window,
        rf"(?=.*{_AT_ENGINE})(?=.*\b(itl|tpot|inter token|per token|decode|step)\b)",
        r"^(decode|engine|model|gpu) step|^step (time|ms)|^step$",
    )
    if fact is None or fact.value is None:
        return None
    argument.fact(fact, "the engine keeps its pace")
    return fact.value <= _FAST_SECONDS


def _by_steady_speed(argument: Argument, window: Window) -> bool | None:
    """As many tokens a second as before."""
    steady = [
        contrast
        for contrast in contrasts(window, _PACE)
        if contrast.base.key == contrast.other.key and 0.9 <= contrast.factor <= 1.1
    ]
    for contrast in steady:
        argument.says(f"{contrast.says}: the engine keeps its pace")
    return True if steady else None


def _by_counted_seconds(argument: Argument, window: Window) -> bool | None:
    spent, made = window.find(Signal.GENERATION_SECONDS), window.find(Signal.GENERATION_TOKENS)
    seconds = None if spent is None else spent.increase
    tokens = None if made is None else made.increase
    if not seconds or not tokens:
        return None
    argument.says(f"{seconds / tokens * 1000:.3g} ms a token at the engine")
    return seconds / tokens <= _FAST_SECONDS


def _by_last_answer(argument: Argument, window: Window) -> bool | None:
    """The last one that the engine's log tells the time of."""
    event = window.last_event(LogKind.GENERATED)
    if event is None:
        return None
    seconds, tokens = event.fields.get("seconds"), event.fields.get("tokens")
    if not seconds or not tokens:
        return None
    argument.says(event.line.strip()[:160])
    return seconds / tokens <= _FAST_SECONDS


def _by_its_queue(argument: Argument, window: Window) -> bool | None:
    queue = window.find_histogram(Signal.QUEUE_TIME)
    waited = None if queue is None else queue.mean
    if queue is None or waited is None:
        return None
    sentence = f"{queue.origin.name}: {waited:.3g} s on average, {reckoned(queue)}"
    argument.histogram(queue, waited, sentence)
    return waited <= _SHORT_WAIT


def _by_what_runs(now: Activity, usage: Figure | None) -> bool | None:
    """It works, with room for more, or its device is not all taken."""
    if now.waiting is None:
        return None
    if now.has_room and now.running is not None and now.running.last.value > 0:
        return True
    return None if usage is None else usage.value < 0.9


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
