"""What speaks against health, each in a sentence, so that no symptom stays unnamed."""

import re
from collections.abc import Callable, Iterator

from controlplane.diagnosis.citing import says
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.contrast import contrasts
from controlplane.diagnosis.views.course import early, late
from controlplane.diagnosis.views.felt import felt, measures_gaps
from controlplane.diagnosis.views.preempting import preempting
from controlplane.diagnosis.views.served import recovered_from, serves_since
from controlplane.diagnosis.views.slowdown import slowdowns
from controlplane.diagnosis.views.spread import spread_of
from controlplane.diagnosis.views.told import number_of, plain, says_no, told_all
from controlplane.diagnosis.window import DoubtKind, Window
from dataplane.engine_metrics.signal import Signal, Unit

FEW_WAIT = 0.15
"""Of the batch: they are in with the next steps."""
_SLOWED = 0.5
_DIP = 0.2
"""Of the best speed of a request in the window."""
_LOST_SHARE = 0.03
"""Of what ended: a few percent of callers leave or send nonsense everywhere."""
_SLOWER = 1.25
_GROWN = 1.1
_CRAWL = 1.0
"""Tokens a second for each that runs."""
_HELD_BY_NOBODY = 0.05
_AFTER_ONE = 0.75
"""Of the speed before: after a request was thrown out, nothing gets slower by itself."""
_SEVERAL = 3
_MANY_READINGS = 16
_PARTS = 8
_WORTH = 0.3
"""A hit rate that somebody would miss."""
_LOST_HITS = 0.4
_MISSING = 1.5
"""Times what the engine has: more in flight than it knows of."""

_BAD_EVENTS = (
    LogKind.OUT_OF_MEMORY,
    LogKind.HOST_OUT_OF_MEMORY,
    LogKind.FAILED_TO_START,
    LogKind.FREE_MEMORY_TOO_LITTLE,
    LogKind.KV_CACHE_TOO_SMALL,
    LogKind.DIED,
    LogKind.NO_PROGRESS,
    LogKind.OUTPUT_WITHOUT_OWNER,
    LogKind.MEMORY_LEAK,
    LogKind.REJECTED,
    LogKind.TRANSFER_FAILED,
    LogKind.COLLECTIVE_SLOW,
    LogKind.FULL_REPROCESS,
    LogKind.ERROR,
)
_TROUBLE = (
    r"\b(errors?|fail(ed|ures?|s)?|time ?outs?|timed out|crash\w*|restarts?|oom\w*|kills?"
    r"|evictions?"
    r"|rejected|rejects|refused|dropped|lost|stuck|leak\w*|5xx|50[0234]|429s?|retries|stalls?"
    r"|corrupt\w*|retransmit\w*|blocked|unanswered|zombies?|violations?)\b"
)
_NO_TROUBLE = (
    r"limit|max|budget|config|allowed|setting|policy|timeout (s|ms)|after|window|threshold"
    r"|objective"
    r"|validation"
)
_BAD_WORDS = (
    r"\b(no answer|unanswered|timed? ?out|stuck|hang\w*|hung|crash\w*|refused|fail\w*|dead|wedged"
    r"|not responding|unreachable|exit(ed)? [1-9]|killed)\b"
)
_HELD = r"(gpu|host|vram|device|smi|rss|memory)\b.*\b(used|in use|resident|mib|gib|held)\b|\brss\b"


def symptoms(now: Activity) -> tuple[str, ...]:
    """All that can be seen; empty where nothing is."""
    return tuple(sentence for look in _LOOKS for sentence in look(now))


def _waiting(now: Activity) -> Iterator[str]:
    """Requests that wait and do not come in."""
    backlog = now.backlog
    if backlog is None or backlog.last.value <= 0:
        return
    batch = max(late(now.running), 1.0) if now.running is not None else 1.0
    waits = late(backlog)
    is_passing = len(backlog.readings) > 2 and backlog.min == 0 and waits <= FEW_WAIT * batch
    is_little = waits <= max(2.0, FEW_WAIT * batch) and backlog.min <= 1
    queue = now.window.find_histogram(Signal.QUEUE_TIME)
    wait = None if queue is None else queue.mean
    if not (is_passing or is_little or (wait is not None and wait < 1.0)):
        yield f"{backlog.origin.name} {backlog.last.raw}: they wait"


def _standstill(now: Activity) -> Iterator[str]:
    """Requests in the batch of which nothing comes."""
    running = now.running
    if running is not None and running.last.value > 0 and now.is_moving is False:
        yield f"{running.origin.name} {running.last.raw}, and nothing moves"


def _stood(now: Activity) -> Iterator[str]:
    """Requests waited while nothing ran, in readings next to one another, also long before."""
    running, waiting = now.running, now.waiting
    if running is None or waiting is None:
        return
    before = False
    for reading in running.readings:
        queue = waiting.at(reading.at)
        stands = reading.value == 0 and queue is not None and queue.value > 0
        if stands and before and queue is not None:
            yield f"{running.origin.name} {reading.raw} while {waiting.origin.name} {queue.raw}"
            return
        before = stands


def _slower(now: Activity) -> Iterator[str]:
    """Each request gets its tokens more slowly than before, with no more of them. A figure that is
    the first after a pause counts the pause; one that dips says less than the gaps, where they are
    measured."""
    decode, running = now.decode, now.running
    if decode is None or running is None or len(decode.readings) < 2:
        return
    is_fine = len(decode.readings) > _MANY_READINGS
    speeds = _smooth(decode, running) if is_fine else _each(now.window, decode, running)
    if len(speeds) < 2:
        return
    half = len(speeds) // 2
    before, after = max(speeds[:half]), max(speeds[half:])
    fewer = after[1] <= before[1] * 1.2
    if after[0] < _SLOWED * before[0] and fewer:
        yield f"{decode.origin.name} for each running: {before[0]:.3g} -> {after[0]:.3g} tokens/s"
        return
    if measures_gaps(now.window):
        return
    best = max(speed for speed, _, _ in speeds)
    warm = [speed for speed, _, first in speeds if not first]
    if warm and min(warm) < _DIP * best:
        yield f"{decode.origin.name} falls to {min(warm):.3g} tokens/s for each running at times"


def _each(window: Window, decode: Series, running: Series) -> list[tuple[float, float, bool]]:
    """Of each reading: tokens a second for each running, how many run, and whether it is the first
    after a pause. None at all while steps go on is no reading: llama.cpp counts a request's tokens
    when it ends."""
    speeds: list[tuple[float, float, bool]] = []
    since = window.start
    steps = window.find(Signal.STEPS)
    for reading in decode.readings:
        stepped = None if steps is None else steps.between(since, reading.at)
        if reading.value == 0 and stepped is not None and (stepped.increase or 0.0) > 0:
            since = reading.at
            continue
        beside, part = running.at(reading.at), running.between(since, reading.at)
        count = 0.0 if beside is None else beside.value
        is_first = not speeds or (part is not None and part.min == 0)
        if count > 0:
            speeds.append((reading.value / count, count, is_first))
        since = reading.at
    return speeds


def _smooth(decode: Series, running: Series) -> list[tuple[float, float, bool]]:
    """The same over eighths: between two scrapes a second apart the batch changes more than the
    pace."""
    speeds: list[tuple[float, float, bool]] = []
    for part in range(_PARTS):
        start = decode.first.at + decode.span_seconds * part / _PARTS
        end = decode.first.at + decode.span_seconds * (part + 1) / _PARTS
        made, beside = decode.between(start, end), running.between(start, end)
        if made is not None and beside is not None and beside.mean >= 1:
            speeds.append((made.mean / beside.mean, beside.mean, beside.min == 0))
    return speeds


def _thrown_out(now: Activity) -> Iterator[str]:
    thrown = preempting(now)
    decode = now.decode
    some = thrown is not None and thrown.count > 0
    if some and decode is not None and decode.last.value < _AFTER_ONE * decode.first.value:
        says_so = "" if thrown is None else thrown.says
        yield f"{says_so}; {decode.origin.name} {decode.first.raw} -> {decode.last.raw}"
        return
    if thrown is not None and (
        thrown.is_costly or (thrown.count >= _SEVERAL and not thrown.is_measured)
    ):
        yield f"requests are thrown out: {thrown.says}"


def _events(now: Activity) -> Iterator[str]:
    over = recovered_from(now.window)
    is_over = over is not None and serves_since(now.window, over)
    for event in now.window.events_of(*_BAD_EVENTS)[-3:]:
        if not is_over or over is None or event.index > over.index:
            yield event.line.strip()[:160]


def _counters(now: Activity) -> Iterator[str]:
    """Requests that end otherwise than by an answer."""
    ended = None if now.finished is None else now.finished.increase
    for signal in (Signal.FAILED, Signal.REJECTED, Signal.ABORTED, Signal.GATEWAY_REJECTED):
        series = now.window.find(signal)
        lost = None if series is None else series.increase
        if series is not None and lost and lost > max(1.0, _LOST_SHARE * (ended or 0.0)):
            yield f"{series.origin.name} {series.first.raw} -> {series.last.raw}"
    for signal in (Signal.UNRELEASED, Signal.LEAKED, Signal.TRANSFER_FAILURES):
        series = now.window.find(signal)
        if (
            series is not None
            and (series.last.value if signal is Signal.UNRELEASED else (series.increase or 0.0)) > 0
        ):
            yield f"{series.origin.name} {series.last.raw}"


def _facts(now: Activity) -> Iterator[str]:
    for fact in told_all(now.window, _TROUBLE, without=_NO_TROUBLE):
        value = number_of(fact)
        if says_no(fact) or value == 0 or (value is None and not re.search(_BAD_WORDS, fact.raw)):
            continue
        if fact.unit is Unit.RATIO and value is not None and value <= _LOST_SHARE:
            continue
        yield says(fact)
    for fact in now.window.facts:
        if fact.value is None and re.search(_BAD_WORDS, fact.raw.lower()):
            yield says(fact)


def _truth(now: Activity) -> Iterator[str]:
    """What the engine says is not what is in flight."""
    inside, running = now.in_flight, now.running
    if inside is None or running is None:
        return
    here = running.last.value + (0.0 if now.waiting is None else now.waiting.last.value)
    near = abs(inside.last.at - running.last.at) <= _SAME_MOMENT
    if near and inside.last.value == 0 and here > 0:
        yield f"{inside.origin.name} {inside.last.raw}, and the engine has {here:g}"
    if near and inside.last.value > _MISSING * here + 4:
        yield f"{inside.origin.name} {inside.last.raw}, and the engine has {here:g}"


_SAME_MOMENT = 20.0


def _uneven(now: Activity) -> Iterator[str]:
    load = spread_of(now.window, Signal.RUNNING)
    if load is None or load.total < 4 * len(load.by_place):
        return
    if load.top_share >= 1.9 / len(load.by_place) and load.least <= 0.25 * load.mean:
        yield load.says


def _comparisons(now: Activity) -> Iterator[str]:
    """Slower than before, or more memory held than before."""
    for slow in slowdowns(now.window):
        if slow.factor >= _SLOWER and not re.search(r"p50.*p9|start to ready", slow.contrast.keys):
            yield slow.says
    for contrast in contrasts(now.window, _HELD):
        if contrast.base.key == contrast.other.key and contrast.factor > _GROWN:
            yield contrast.says


def _doubts(now: Activity) -> Iterator[str]:
    kinds = (DoubtKind.STUCK, DoubtKind.COUNTER_RESET, DoubtKind.MISSING, DoubtKind.OUT_OF_RANGE)
    for doubt in now.window.doubts_of(*kinds):
        yield f"{doubt.name}: {doubt.what}"


def _objectives(now: Activity) -> Iterator[str]:
    """An objective that is missed."""
    for limit in told_all(now.window, r"\b(objective|slo|target|allowed|sla)\b"):
        bound = number_of(limit)
        about = set(plain(limit.key).split()) - {"objective", "slo", "target", "allowed", "sla"}
        for fact in now.window.facts:
            if fact is limit or fact.unit is not limit.unit or fact.value is None or not bound:
                continue
            if fact.quantile == limit.quantile and _is_about(fact, about) and fact.value > bound:
                yield f"{says(fact)} against {says(limit)}"


def _is_about(fact: Fact, words: set[str]) -> bool:
    own = set(plain(fact.key).split())
    return bool(own & words & {"ttft", "tpot", "itl", "latency", "e2e"}) or bool(
        own & {"latency", "e2e"} and not words & {"ttft", "tpot", "itl"}
    )


def _drafts(now: Activity) -> Iterator[str]:
    """What is drafted is accepted ever less."""
    for signal in (Signal.ACCEPTANCE_RATE, Signal.ACCEPTANCE_LENGTH):
        series = now.window.find(signal)
        if series is None or len(series.readings) < 3:
            continue
        own = 1.0 if signal is Signal.ACCEPTANCE_LENGTH else 0.0
        before = early(series) - own
        if before > 0 and late(series) - own < _SUNK * before:
            yield f"{series.origin.name} {series.first.raw} -> {series.last.raw}"
            return


_SUNK = 0.6


def _hit_rate(now: Activity) -> Iterator[str]:
    rate: Series | None = now.window.find(Signal.HIT_RATE)
    if rate is None or len(rate.readings) < 3 or early(rate) < _WORTH:
        return
    if late(rate) < _LOST_HITS * early(rate):
        yield f"{rate.origin.name} {rate.first.raw} -> {rate.last.raw}"


def _felt(now: Activity) -> Iterator[str]:
    """Latencies that the engine or a gateway measures itself."""
    return felt(now.window)


def _crawl(now: Activity) -> Iterator[str]:
    """Tokens come, and hardly any."""
    decode, running = now.decode, now.running
    if decode is None or running is None or late(running) <= 0 or late(decode) <= 0:
        return
    prefills = now.prefill is not None and late(now.prefill) > 0
    if decode.max < _CRAWL * late(running) and not prefills and len(decode.readings) > 1:
        yield f"{decode.origin.name} {decode.last.raw} for {running.last.raw} running"


def _held(now: Activity) -> Iterator[str]:
    """Blocks are held while nothing runs or waits."""
    kv, running = now.kv, now.running
    if kv is None or running is None or running.last.value > 0:
        return
    if kv.last.value > _HELD_BY_NOBODY and (now.waiting is None or now.waiting.last.value == 0):
        yield f"{kv.origin.name} {kv.last.raw} with nothing running"


def _filling(now: Activity) -> Iterator[str]:
    """The cache is as good as full, and was not."""
    kv = now.kv
    if kv is None or len(kv.readings) < 2 or kv.span_seconds < 60:
        return
    if kv.last.value >= 0.95 and kv.first.value <= 0.85 * kv.last.value:
        yield f"{kv.origin.name} {kv.first.raw} -> {kv.last.raw}"


_LOOKS: tuple[Callable[[Activity], Iterator[str]], ...] = (
    _waiting,
    _standstill,
    _stood,
    _slower,
    _thrown_out,
    _events,
    _counters,
    _facts,
    _truth,
    _uneven,
    _comparisons,
    _doubts,
    _objectives,
    _hit_rate,
    _drafts,
    _felt,
    _filling,
    _crawl,
    _held,
)
