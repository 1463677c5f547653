"""Collectives between devices take most of a step."""

import re
from dataclasses import dataclass

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.pace.collectives import share_of_step
from controlplane.diagnosis.rules.pace.more_devices import is_not_faster
from controlplane.diagnosis.rules.pace.rounds import is_telling, rounds_of
from controlplane.diagnosis.rules.pace.slow_links import SLOW_PATH, is_link_full, slow_path
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.device import BUSY_CORE, cpu_of
from controlplane.diagnosis.views.slowdown import slowdowns, slower_than_told
from controlplane.diagnosis.views.told import number_of, told, told_all
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.devices import NOT_NUM_DEVICES, NUM_DEVICES
from dataplane.engine_metrics.signal import Signal, Unit

_SHARE = 0.3
"""Of a step; over NVLink or the like it is under a tenth for large models."""
_MOST = 0.5
_FASTER = 1.15
"""Times: where the same is so much faster over another link, the link is what differs."""
_REFERENCE = (
    r"\b(reference|expected|should|other (host|machine|box|server)|same (cards|gpus|model)|before"
    r"|published|readme|benchmark|vendor|elsewhere|was|usual|normal|baseline)\b"
)
_BETTER_LINK = (
    r"\b(nvlink|nvl|nvswitch|p2p|peer|rdma|infiniband|ib|roce|one node|single node|bridge|patched"
    r"|sxm|one shot|custom all ?reduce)\b"
)
_ENGINE = r"engine|core|enginecore|scheduler|worker|python|rank|tp0"
_SIZE = rf"{NUM_DEVICES}|expert parallel( size)?$|^ep( size)?$|world size"


def judge(window: Window) -> Verdict | None:
    """LIKELY where collectives have a large share of a step, account for what it takes longer than
    over a better link, or more devices are not faster."""
    if not _is_several(window):
        return None
    argument = Argument(window)
    now = activity_of(window)
    measured = share_of_step(argument, window)
    if measured is not None and measured < _SHARE:
        return None
    rounds = rounds_of(now) if measured is None else None
    if rounds is not None:
        argument.says(rounds.says)
    share = measured if rounds is None else rounds.share
    slow = slow_path(argument, window)
    if share is not None and share >= _SHARE:
        sure = (share >= _MOST or slow) and (slow or _is_known_to_be_several(window))
        return _weighed(argument, now, Confidence.CERTAIN if sure else Confidence.LIKELY)
    if rounds is not None and is_telling(rounds):
        return _weighed(argument, now, Confidence.LIKELY)
    full = is_link_full(argument, window)
    if (
        is_not_faster(argument, window)
        or (slow and full)
        or (slow and _is_faster_elsewhere(argument, now))
        or (slow and _is_slower_since(argument, window))
    ):
        return _weighed(argument, now, Confidence.LIKELY)
    if not (slow or full):
        return None
    argument.need("share of a step spent in collectives", "speed with fewer devices for one model")
    return _weighed(argument, now, Confidence.POSSIBLE)


def _weighed(argument: Argument, now: Activity, confidence: Confidence) -> Verdict:
    for fact in told_all(now.window, r"\b(gpu|cpu)\b.*\b(busy|util\w*|percent)"):
        argument.fact(fact)
    argument.series(now.running)
    argument.series(now.waiting)
    argument.series(now.decode)
    argument.against("host.bound: the devices wait for each other and not for the host")
    if now.waiting is not None and now.waiting.last.value == 0:
        argument.against("queue.overload: nothing waits")
    return argument.verdict(confidence)


@dataclass(frozen=True, slots=True)
class _Reference:
    """What the same gives elsewhere."""

    says: str
    is_of_a_link: bool
    """It is told as that of a better link."""


def _reference(now: Activity) -> _Reference | None:
    for pattern in (_BETTER_LINK, _REFERENCE):
        found = slower_than_told(now.window, now.decode, pattern)
        if found is None or found[0] < _FASTER:
            continue
        link = told(now.window, rf"(?=.*{_REFERENCE})(?=.*\b(link|interconnect|host|topology))")
        is_better = link is not None and re.search(_BETTER_LINK, link.raw.lower()) is not None
        return _Reference(found[1], pattern == _BETTER_LINK or is_better)
    return None


def _is_faster_elsewhere(argument: Argument, now: Activity) -> bool:
    """Over a better link, or where the host is known to have time and graphs are replayed."""
    reference = _reference(now)
    if reference is None:
        return False
    argument.says(reference.says)
    busy = cpu_of(now.window, _ENGINE)
    graph = now.window.find(Signal.CUDA_GRAPH)
    if (busy is not None and busy.value >= BUSY_CORE) or (graph is not None and graph.max == 0):
        return False
    if busy is not None:
        argument.says(f"{busy.says}: the host has time")
    return reference.is_of_a_link or (busy is not None and graph is not None)


def _is_slower_since(argument: Argument, window: Window) -> bool:
    """Since a change that took the fast path away."""
    for change in window.changes_with(SLOW_PATH):
        for slow in slowdowns(window):
            base, other = slow.contrast.base, slow.contrast.other
            if slow.factor >= _FASTER and base.at <= change.at <= other.at and base.at < other.at:
                argument.says(slow.says)
                return True
    return False


def _is_several(window: Window) -> bool:
    """Devices that hold one model together, as far as is known."""
    sizes = _sizes(window)
    return not sizes or max(sizes) > 1


def _is_known_to_be_several(window: Window) -> bool:
    """Somebody says so, or a kernel or another node does; a share by itself may be of any run."""
    if max(_sizes(window), default=0.0) > 1 or window.lines_with(r"nccl|rccl|all_?reduce|Sync"):
        return True
    named = told_all(window, r"\b(all ?reduces?|all ?gathers?|reduce ?scatters?|all ?to ?alls?)\b")
    is_timed = any(fact.unit is Unit.SECONDS for fact in named)
    return is_timed or len({fact.key for fact in named}) > 1


def _sizes(window: Window) -> list[float]:
    return [
        value
        for fact in told_all(window, _SIZE, without=NOT_NUM_DEVICES)
        if (value := number_of(fact)) is not None
    ]


COMMUNICATION_BOUND = Rule(
    id="communication-bound",
    mechanism=Mechanism.COMMUNICATION_BOUND,
    judge=judge,
    needs=(
        "share of a step spent in collectives, or speed with fewer devices",
        "the link between the devices",
    ),
    told_apart="From a busy host by collectives in the gap, from KV transfer by traffic in every "
    "step and not once for a request.",
    remedy="Fewer devices for each model (replicas instead of tensor parallel), pipeline over slow "
    "links, or restore the fast path between devices.",
    hides="A larger batch hides the latency of collectives and makes each token later.",
    # Faster kernels save nothing where devices wait for each other.
    explains=frozenset({Mechanism.PRECISION_NOT_PAYING}),
)
