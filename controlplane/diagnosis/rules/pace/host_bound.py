"""The device waits for the host: scheduling, sampling, tokenizing, launching kernels."""

import re

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import late
from controlplane.diagnosis.views.course_parts import (
    observed_parts,
    rates,
    recent_mean,
    recent_rate,
)
from controlplane.diagnosis.views.device import BUSY_CORE, IDLE_BELOW, cpu_of, device_usage
from controlplane.diagnosis.views.figure import Figure
from controlplane.diagnosis.views.phases import phases_of
from controlplane.diagnosis.views.slowdown import slowdowns
from controlplane.diagnosis.views.told import (
    number_of,
    plain,
    says_yes,
    share_of,
    told,
    told_all,
    told_number,
)
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, Unit

_ENGINE = (
    r"executor|engine|core|enginecore|scheduler|worker|python|main|model|rank|tp0|single|decode"
    r"|runner"
)
_FRONT = r"front\w*|api|http|router|gateway|client|uvicorn|ingress|proxy|tokenizer|detokenizer"
_HOST = (
    r"\b(cpu|host|python|schedul\w*|launch\w*|sampl\w*|detokeni[sz]\w*|tokeni[sz]\w*|grammar"
    r"|overhead|gap|bubble|gil|bookkeeping|prepare|preparation|input prep|post ?process\w*|between"
    r" (steps|kernels))\b"
)
_DEVICE = r"\b(gpu|device|kernels?|forward|compute|cuda|model exec\w*|execution)\b"
_STEP = r"\b(step|iteration|itl|tpot|per token|total|cycle|loop|decode step)\b"
_GAP = r"\b(gaps?|bubbles?|idle|between (steps|kernels|launches)|without (any )?kernels?)\b"
_KERNELS = r"\b(kernels?|gpu (time|work|compute)|device (time|work)|compute|forward)\b"
_GAP_SHARE = 0.25
"""Of a step, measured on the device: nothing else leaves it without a kernel at one request after
another but collectives, which are kernels."""
_SHARE = 0.4
"""Of a step: more than a third that the device waits is worth more than any kernel."""
_EAGER = r"enforce[_-]?eager|cuda ?graphs?.{0,30}(disabled|off|not supported|skipp)|eager mode"
_THROTTLED = r"throttl|steal|cpu (limit|quota)|cgroup cpu|governor|powersave|nice"
_SLOWER = 1.3


def judge(window: Window) -> Verdict | None:
    """LIKELY where the device idles while requests run and the host is known to be the reason."""
    now = activity_of(window)
    if any(each is not None and each.max == 0 for each in (now.running, now.in_flight)):
        return None
    late_one = _one_is_late(window)
    if late_one is not None:
        return late_one
    usage = device_usage(window)
    if usage is not None and usage.value >= _BUSY_DEVICE:
        return None
    argument = Argument(window)
    busy = _busy_engine(argument, window)
    measured = _shares(argument, window) or (busy and _has_gap(argument, window))
    eager = _eager(argument, window)
    starved = _starved(argument, window)
    if not (measured or busy or eager or starved):
        return None
    bound = _WAITS if busy else IDLE_BELOW
    is_idle = usage is not None and usage.value < bound
    if usage is not None:
        if usage.fact is not None:
            argument.fact(usage.fact, "the device waits")
        else:
            argument.says(f"{usage.says}: the device waits")
    _cite(argument, now)
    sure = _is_slow(window) or _is_far_from_busy(usage, now, IDLE_BELOW if busy else _FAR)
    chosen = eager and not (busy or starved)
    if chosen and not measured and not _is_slow(window):
        return _ask(argument, usage is None)
    if measured or ((busy or starved or eager) and is_idle and sure):
        return argument.verdict(Confidence.CERTAIN if measured and busy else Confidence.LIKELY)
    if eager and not (busy or starved or is_idle):
        return None if now.waiting is None else _ask(argument, usage is None)
    return _ask(argument, usage is None)


def _one_is_late(window: Window) -> Verdict | None:
    """Steps of one replica take longer than those of the others, with no more in its batch: it is
    its host, its links or its device, and no engine tells which."""
    paces = _paces(window)
    if len(paces) < 2 or phases_of(window) is not None:
        return None
    slowest = max(paces, key=lambda place: paces[place])
    others = sorted(pace for place, pace in paces.items() if place != slowest)
    usual = others[len(others) // 2]
    if usual <= 0 or paces[slowest] < _LATER * usual:
        return None
    batches = {
        series.labels["replica"]: late(series)
        for series in window.all_series(Signal.RUNNING)
        if "replica" in series.labels
    }
    beside = [value for place, value in batches.items() if place != slowest]
    if beside and batches.get(slowest, 0.0) > _MORE * max(max(beside), 1.0):
        return None
    for series in window.all_series(Signal.PREEMPTIONS):
        if series.labels.get("replica") == slowest and (series.increase or 0.0) > 0:
            return None
    argument = Argument(window)
    argument.says(
        f"a step or token takes {paces[slowest] * 1000:.3g} ms on {slowest}, "
        f"{usual * 1000:.3g} ms on the others"
    )
    counts = ", ".join(f"{place} {value:.0f}" for place, value in batches.items())
    argument.says(f"with no more in its batch: {counts}")
    argument.against("queue.overload, cache.thrash: its batch and its cache are as the others'")
    argument.need("how busy its device is", "CPU and clocks of its host", "time in collectives")
    became = _was_as_fast(window, slowest)
    return argument.verdict(
        Confidence.LIKELY if became else Confidence.POSSIBLE,
        detail=f"{slowest} is slower than the others",
    )


def _was_as_fast(window: Window, slowest: str) -> bool:
    """As the others, at the beginning: devices of another kind are slower all the time."""
    for signal in (Signal.STEP_TIME, Signal.ITL, Signal.TPOT):
        means = {}
        for histogram in window.histograms:
            parts = observed_parts(histogram, window)
            if histogram.signal is signal and parts is not None and parts[0].count > 0:
                means[histogram.labels.get("replica", "")] = parts[0].sum / parts[0].count
        others = [mean for place, mean in means.items() if place != slowest]
        if slowest in means and others:
            return means[slowest] < _LATER * max(others)
    paces = {}
    for series in window.all_series(Signal.GENERATION_SECONDS):
        place = series.labels.get("replica", "")
        spent = rates(series, window)
        made = rates(window.find(Signal.GENERATION_TOKENS, replica=place), window)
        if spent is not None and made is not None and made.before > 0:
            paces[place] = spent.before / made.before
    others = [pace for place, pace in paces.items() if place != slowest]
    return slowest in paces and bool(others) and paces[slowest] < _LATER * max(others)


def _paces(window: Window) -> dict[str, float]:
    """Seconds of a step or a token of late, by replica."""
    for signal in (Signal.STEP_TIME, Signal.ITL, Signal.TPOT):
        found = {
            histogram.labels["replica"]: mean
            for histogram in window.histograms
            if histogram.signal is signal and "replica" in histogram.labels
            if (mean := recent_mean(histogram, window)) is not None
        }
        if len(found) > 1:
            return found
    seconds = {
        series.labels.get("replica", ""): recent_rate(series, window)
        for series in window.all_series(Signal.GENERATION_SECONDS)
    }
    tokens = {
        series.labels.get("replica", ""): recent_rate(series, window)
        for series in window.all_series(Signal.GENERATION_TOKENS)
    }
    return {
        place: spent / made
        for place, spent in seconds.items()
        if place and spent and (made := tokens.get(place))
    }


def _ask(argument: Argument, is_usage_unknown: bool) -> Verdict:
    if is_usage_unknown:
        argument.need("how busy the device is")
    argument.need("CPU of the engine's process", "step time against the time of its kernels")
    return argument.verdict(Confidence.POSSIBLE)


def _shares(argument: Argument, window: Window) -> bool:
    """A profile: what of a step is the host's, or how little is the device's."""
    for fact in reversed(told_all(window, _HOST, without=_NOT_SHARE)):
        share = _share(fact)
        if share is not None and share >= _SHARE:
            argument.fact(fact)
            return True
    gap, kernels = (
        _time(window, _GAP, without=r"token|p9|ttft"),
        _time(window, _KERNELS, without=""),
    )
    if gap and kernels and gap[1] >= _GAP_SHARE * (gap[1] + kernels[1]):
        argument.fact(gap[0], "without any kernel")
        argument.fact(kernels[0])
        return True
    step = _time(window, _STEP, without=rf"{_DEVICE}|{_HOST}|ttft|request|startup")
    host = _time(window, _HOST, without=r"ttft|queue|client|between tokens|token gap|per token")
    device = _time(window, _DEVICE, without=r"ttft|memory|idle")
    if step and host and host[1] >= _SHARE * step[1]:
        argument.fact(host[0], "of a step, the host's")
        argument.fact(step[0])
        return True
    if step and device and device[1] <= (1 - _SHARE) * step[1]:
        argument.fact(device[0], "of a step, the device's")
        argument.fact(step[0])
        return True
    if host and device and host[1] >= device[1]:
        argument.fact(host[0])
        argument.fact(device[0])
        return True
    return False


def _has_gap(argument: Argument, window: Window) -> bool:
    """With the engine's thread known to be full, a smaller gap on the device is the host's too."""
    gap = _time(window, _GAP, without=r"token|p9|ttft|timeout|since")
    step = _time(window, _STEP, without=rf"{_DEVICE}|{_HOST}|{_GAP}|ttft|request")
    if gap is None or step is None or not _SMALL_GAP * step[1] <= gap[1] < step[1]:
        return False
    argument.fact(gap[0], f"of a step ({step[0].key} {step[0].raw})")
    return True


_SMALL_GAP = 0.08
"""Of a step: what a full thread leaves the device idle for is worth having back."""


def _share(fact: Fact) -> float | None:
    text = f"{plain(fact.key)} {fact.raw}"
    if not re.search(r"share|percent|pct|fraction|ratio|%", text):
        return None
    if not re.search(_OF_A_STEP, text):
        return None
    if re.search(r"\bcpu\b", text) and not re.search(r"overhead|of step|share|time", text):
        return None
    return share_of(fact)


def _time(window: Window, pattern: str, *, without: str) -> tuple[Fact, float] | None:
    for fact in reversed(told_all(window, pattern, without=without)):
        value = number_of(fact)
        is_time = fact.unit is Unit.SECONDS or re.search(r"\b(ms|us|s|time)\b", plain(fact.key))
        if value and is_time and fact.unit in (Unit.SECONDS, None):
            return fact, value
    return None


def _busy_engine(argument: Argument, window: Window) -> bool:
    busy = cpu_of(window, _ENGINE, other_than=_FRONT)
    if busy is None:
        full = told(window, rf"(?=.*\bcpu\b)(?=.*\b({_ENGINE})\b)")
        is_full = full is not None and re.search(r"full|saturat|max|pinned|100", full.raw.lower())
        argument.fact(full if is_full else None)
        return bool(is_full)
    if busy.value < BUSY_CORE:
        return False
    front = cpu_of(window, _FRONT)
    if front is not None and front.value > busy.value:
        return False
    argument.fact(busy.fact, "one core is all that such a process can use")
    return True


def _eager(argument: Argument, window: Window) -> bool:
    """No graphs are replayed: each kernel is launched by the host."""
    graph = window.find(Signal.CUDA_GRAPH)
    if graph is not None and graph.max == 0 and len(graph.readings) > 1:
        argument.series(graph, "no step replays a graph")
        return True
    fact = told(window, r"enforce eager|eager( mode)?$|cuda graphs? (disabled|off)")
    if says_yes(fact):
        argument.fact(fact, "each kernel is launched by the host")
        return True
    for line in window.lines_with(_EAGER)[-1:]:
        if not re.search(r"enforce_eager=False", line):
            argument.says(line.strip()[:200])
            return True
    for change in window.changes_with(_EAGER):
        argument.says(f"change: {change.what}")
        return True
    return False


def _starved(argument: Argument, window: Window) -> bool:
    fact = told_number(window, r"throttl|steal|run ?queue", without=_OTHERS_HOST)
    value = number_of(fact)
    if (
        fact is not None
        and value is not None
        and value >= (_LEAST_SHARE if fact.unit is Unit.RATIO else 1.0)
        and not re.search(_GPU, plain(fact.key))
    ):
        argument.fact(fact, "the host's processors are short")
        return True
    for change in window.changes_with(_THROTTLED):
        if not re.search(_GPU, change.what.lower()):
            argument.says(f"change: {change.what}")
    return _is_loaded(argument, window) or _has_used_its_cores(argument, window)


_OTHERS_HOST = r"client|generator|bench|sender"
_LEAST_SHARE = 0.05
"""Of the time: less is what any shared host has."""


def _is_loaded(argument: Argument, window: Window) -> bool:
    """More want to run than there are cores."""
    load = told_number(window, r"load (avg|average)|^load ?1$", without=_OTHERS_HOST)
    cores = told_number(window, r"\b(cores|cpus|vcpus?)\b", without=r"used|busy|client|throttl")
    value, many = number_of(load), number_of(cores)
    if not value or not many or value < many:
        return False
    argument.fact(load, f"of {cores.raw if cores else ''} cores: the host's processors are short")
    return True


def _has_used_its_cores(argument: Argument, window: Window) -> bool:
    """All that its container or its machine has."""
    used = told_number(window, r"\bcpus?\b.*\b(used|busy|usage)\b", without=r"mem|percent|pct")
    limit = told_number(window, r"\bcpus?\b.*\b(limit|quota|total|available)\b", without=r"mem")
    taken, whole = number_of(used), number_of(limit)
    if used is None or limit is None or not taken or not whole or taken > _OVER * whole:
        return False
    if taken < _ALL_CORES * whole or re.search(_GPU, plain(used.key)):
        return False
    argument.fact(used, f"of {limit.raw}: the host's processors are short")
    return True


_ALL_CORES = 0.95
_OVER = 1.1
"""Of the limit: more is a figure of another thing."""


def _is_slow(window: Window) -> bool:
    """Slower than another way that was measured."""
    with_graphs = slowdowns(window, base=r"\b(graphs?|compiled|captured)\b", other=r"\beager\b")
    return any(slow.factor >= _SLOWER for slow in (*slowdowns(window), *with_graphs))


def _is_far_from_busy(usage: Figure | None, now: Activity, bound: float) -> bool:
    """With a batch at hand; at one request a wait for the device looks like work of the host."""
    running = None if now.running is None else late(now.running)
    return usage is not None and usage.value < bound and (running is None or running >= _A_BATCH)


def _cite(argument: Argument, now: Activity) -> None:
    argument.series(now.running)
    argument.series(now.waiting)
    argument.series(now.kv)
    argument.series(now.decode)
    for slow in slowdowns(now.window)[:1]:
        if slow.factor >= _SLOWER:
            argument.says(slow.says)
    argument.against("batch.underfilled: requests run, and the step itself is late")
    argument.against("delivery.front_end_bound: it is the engine's own step, not what follows it")


_NOT_SHARE = r"util|usage|front|client|memory|cache|hit|budget|kv|trac(e|ing)|startup"
_OF_A_STEP = r"step|iteration|time|wall|overhead|loop|cycle|execut|idle|gap|bubble|between|of the"
_FAR = 0.45
_A_BATCH = 4
_LATER = 1.8
"""Times the others' steps: batches that differ by a few requests differ by less."""
_MORE = 1.6
_BUSY_DEVICE = 0.85
_WAITS = 0.8
"""Of the time: with one core of the host used up, a fifth that the device idles is the host's."""
_GPU = r"gpu|thermal|power|clock"

HOST_BOUND = Rule(
    id="host-bound",
    mechanism=Mechanism.HOST_BOUND,
    judge=judge,
    needs=(
        "how busy the device is",
        "CPU of the engine's process, or step time against the time of its kernels",
    ),
    told_apart="From an underfilled batch by late steps with requests at hand, from a front "
    "end by the engine's own process being busy, from communication by no collectives in the gap.",
    remedy="Replay graphs, schedule ahead (asynchronous scheduling, several steps), take work off "
    "the engine's thread, give it a faster or free core.",
    hides="More replicas on one host make it worse; a larger batch hides the gap and keeps it.",
)
