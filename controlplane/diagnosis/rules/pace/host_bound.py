"""The device waits for the host: scheduling, sampling, tokenizing, launching kernels."""

import re

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.pace.late_replica import late_replica
from controlplane.diagnosis.rules.pace.other_host import with_another_cpu
from controlplane.diagnosis.rules.pace.short_host import is_host_short
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import late
from controlplane.diagnosis.views.device import BUSY_CORE, IDLE_BELOW, cpu_of, device_usage
from controlplane.diagnosis.views.figure import Figure
from controlplane.diagnosis.views.slowdown import slowdowns
from controlplane.diagnosis.views.told import (
    number_of,
    plain,
    says_yes,
    share_of,
    told,
    told_all,
)
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.latency import BETWEEN_TOKENS
from controlplane.diagnosis.words.shares import SHARE
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
_LONGEST_STEP = 60.0
"""Seconds: more is a moment on somebody's clock."""
_SLOWER = 1.3


def judge(window: Window) -> Verdict | None:
    """LIKELY where the device idles while requests run and the host is known to be the reason."""
    now = activity_of(window)
    if any(each is not None and each.max == 0 for each in (now.running, now.in_flight)):
        return None
    elsewhere = late_replica(window) or with_another_cpu(now)
    if elsewhere is not None:
        return elsewhere
    usage = device_usage(window)
    if usage is not None and usage.value >= _BUSY_DEVICE:
        return None
    argument = Argument(window)
    busy = _busy_engine(argument, window)
    measured = _shares(argument, window) or (busy and _has_gap(argument, window))
    eager = _eager(argument, window)
    starved = is_host_short(argument, window)
    if not (measured or busy or eager or starved):
        return None
    is_idle = usage is not None and usage.value < (_WAITS if busy else IDLE_BELOW)
    _cite(argument, now, usage)
    is_slow = _is_slow(window)
    sure = is_slow or _is_far_from_busy(usage, now, IDLE_BELOW if busy else _FAR)
    is_freed = eager and _is_freed_by_graphs(argument, window)
    is_only_eager = eager and not (busy or starved)
    if is_only_eager and not (measured or is_freed or is_slow):
        return _ask(argument, usage is None)
    if measured or is_freed or ((busy or starved or eager) and is_idle and sure):
        return argument.verdict(Confidence.CERTAIN if measured and busy else Confidence.LIKELY)
    if is_only_eager and not is_idle and now.waiting is None:
        return None
    return _ask(argument, usage is None)


def _cite_device(argument: Argument, usage: Figure | None) -> None:
    if usage is None:
        return
    if usage.fact is not None:
        argument.fact(usage.fact, "the device waits")
    else:
        argument.says(f"{usage.says}: the device waits")


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
    host = _time(window, _HOST, without=_NOT_HOST)
    device = _time(window, _DEVICE, without=rf"ttft|memory|idle|startup|{BETWEEN_TOKENS}")
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


_NOT_HOST = (
    r"ttft|queue|client|between tokens|token gap|per token|startup"
    r"|\b(age|endpoint|scrapes?|metrics)\b"
)
"""A sample may be of a page, too, and a compilation of graphs is of the start."""


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
    if not re.search(SHARE, text):
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
        is_of_a_step = value is not None and 0 < value < _LONGEST_STEP
        if value and is_of_a_step and is_time and fact.unit in (Unit.SECONDS, None):
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


def _is_freed_by_graphs(argument: Argument, window: Window) -> bool:
    """The same with graphs alone takes far less: what they save is the host's launching."""
    told = slowdowns(window, base=r"\b(graphs?|captured)\b", other=r"\beager\b")
    found = [slow.says for slow in told if slow.factor >= _SLOWER]
    for change in window.changes_with(_GRAPHS_ON):
        found += [
            slow.contrast.says
            for slow in slowdowns(window)
            if slow.contrast.base.key == slow.contrast.other.key
            and slow.contrast.base.at <= change.at <= slow.contrast.other.at
            and slow.factor * _SLOWER <= 1
        ]
    for sentence in dict.fromkeys(found[:_MOST_SAID]):
        argument.says(f"{sentence}: with graphs alone")
    return bool(found)


_GRAPHS_ON = (
    r"enforce[_-]?eager\W{0,3}(false|off|0\b|no\b|removed|dropped|unset)"
    r"|\b(remov|dropp?|unset|disabl|without|no|turned off)\w*\W+(the )?(--)?(enforce[_-]?)?eager"
    r"|(cuda|hip|npu)? ?graphs?\W{1,3}(on\b|enabled|captured|true)"
    r"|\b(enabl|captur|turned on)\w*\W+(the )?(cuda|hip|npu|decode)? ?graphs?"
)
_MOST_SAID = 4


def _is_slow(window: Window) -> bool:
    """Slower than another way that was measured."""
    with_graphs = slowdowns(window, base=r"\b(graphs?|compiled|captured)\b", other=r"\beager\b")
    return any(slow.factor >= _SLOWER for slow in (*slowdowns(window), *with_graphs))


def _is_far_from_busy(usage: Figure | None, now: Activity, bound: float) -> bool:
    """With a batch at hand; at one request a wait for the device looks like work of the host."""
    running = None if now.running is None else late(now.running)
    return usage is not None and usage.value < bound and (running is None or running >= _A_BATCH)


def _cite(argument: Argument, now: Activity, usage: Figure | None) -> None:
    _cite_device(argument, usage)
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
_BUSY_DEVICE = 0.85
_WAITS = 0.8
"""Of the time: with one core of the host used up, a fifth that the device idles is the host's."""

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
