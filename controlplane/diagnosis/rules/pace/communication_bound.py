"""Collectives between devices take most of a step."""

import re

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.modes import between_modes, keys_of
from controlplane.diagnosis.views.slowdown import is_of_time, slowdowns
from controlplane.diagnosis.views.told import number_of, plain, share_of, told, told_all
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Unit

_COLLECTIVE = (
    r"\b(nccl|rccl|hccl|all ?reduce\w*|all ?gather|reduce ?scatter|all ?to ?all|a2a|collectives?"
    r"|communication|comms?|inter ?gpu|cross device reduce|expert dispatch|ring|broadcast)\b"
)
_STEP = r"\b(step|iteration|itl|tpot|per token|decode step|layer|total|forward)\b"
_SHARE = 0.3
"""Of a step; over NVLink or the like it is under a tenth for large models."""
_MOST = 0.5
_ONE = (
    r"\b(tp ?1|1 ?gpus?|one gpu|single( gpu)?|1 card|one card|pp|pipeline|replicas|dp|nvlink|nvl"
    r"|before|baseline|without|same switch|one node|1 node|local(host)?|loopback|one machine"
    r"|intra)\b"
)
_SEVERAL = (
    r"\b(tp ?\d*|[2-9] ?gpus?|1[0-9] ?gpus?|two gpus?|four gpus?|eight gpus?|[2-9] cards|tensor"
    r"|tensor parallel|pcie|pci|ethernet|tcp|sockets?|after|now|with|two nodes|[2-9] nodes"
    r"|two cards"
    r"|cross node|remote|rpc|over|on|lan|wan|wifi|gigabit|gbit|\d+|network|inter)\b"
)
_DEVICES = (
    r"\b(tp ?\d*|tensor|gpus?|cards|nodes?|nvlink|pcie|socket|tcp|ethernet|rpc|remote|network|gbit"
    r"|lan|wan|gigabit)\b"
)
_NUMBER = r"\btp ?(\d+)\b|\b(\d+) ?(?:gpus?|cards?|nodes?|devices?)\b"
_NOT_A_STEP = r"ttft|busy|idle|\bload|start|transfer|\bkv\b|prefill"
_LINK_WORDS = r"\b(nvlink|pcie|socket|tcp|ethernet|rpc|remote|network|gbit|lan|wan|gigabit)\b"
_LINK_COSTS = 1.15
"""The same devices over another link: what it takes longer is the link's."""
_FEWER_TALK = (
    r"layer( split)?|pipeline|\bpp|single|one (gpu|card|node)|replicas|\bdp|nvlink|data parallel"
    r"|infiniband|rdma|p2p (on|enabled)"
)
_MORE_TALK = (
    r"tensor( parallel)?|\btp|row split|split mode row|two (gpus|cards|nodes)|pcie|ethernet|tcp"
    r"|socket|expert parallel|\bep|across nodes|cross node|rpc"
)
_NOT_FASTER = 0.95
"""Two devices that take as long as one: what they gain is spent on talking."""
_SLOW_PATH = (
    r"custom all-?reduce is disabled|lacks GPU P2P|P2P is (disabled|not available)|via SHM"
    r"|NET/Socket|NCCL_P2P_DISABLE|NCCL_IB_DISABLE|no (RDMA|NVLink|IB) |Using network Socket"
    r"|No device found"
)
_LINKS = (
    r"nvlink|pcie|interconnect|\blink\b|p2p|topology|infiniband|\bib\b|rdma|roce|ethernet|nic\b"
    r"|network"
)
_SLOW_LINK = (
    r"\b(none|no|off|disabled|absent|phb|sys|node|pix|pxb|x1|x4|x8|gen ?[123]|socket|tcp|shm|1 ?g"
    r"|10 ?g|25 ?g)\b"
)


def judge(window: Window) -> Verdict | None:
    """LIKELY where collectives have a large share of a step, or more devices are not faster over a
    link that is known to be slow."""
    argument = Argument(window)
    share = _share(argument, window)
    if share is not None and share < _SHARE:
        return None
    scaled = share is None and _is_not_faster(argument, window)
    slow_path = _slow_path(argument, window)
    if share is None and not scaled and not slow_path:
        return None
    now = activity_of(window)
    argument.series(now.running)
    argument.series(now.waiting)
    argument.series(now.decode)
    argument.against("host.bound: the devices wait for each other and not for the host")
    if now.waiting is not None and now.waiting.last.value == 0:
        argument.against("queue.overload: nothing waits")
    if share is not None:
        sure = share >= _MOST or slow_path
        return argument.verdict(Confidence.CERTAIN if sure else Confidence.LIKELY)
    if scaled:
        _cite_rounds(argument, window)
        return argument.verdict(Confidence.LIKELY)
    if not _is_several(window):
        return None
    argument.need("share of a step spent in collectives", "speed with fewer devices for one model")
    return argument.verdict(Confidence.POSSIBLE)


def _share(argument: Argument, window: Window) -> float | None:
    for fact in reversed(told_all(window, _COLLECTIVE)):
        if re.search(r"share|percent|pct|fraction|%|of step", f"{plain(fact.key)} {fact.raw}"):
            share = share_of(fact)
            if share is not None:
                argument.fact(fact, "of a step")
                return share
    for fact in reversed(told_all(window, _COLLECTIVE)):
        value = number_of(fact)
        if fact.unit is None and value is not None and 0 < value < 1:
            argument.fact(fact, "of a step")
            return value
    step = [
        fact
        for fact in told_all(window, _STEP, without=rf"{_COLLECTIVE}|ttft|tokens|queue")
        if fact.unit in (Unit.SECONDS, None) and number_of(fact)
    ]
    for fact in reversed(told_all(window, _COLLECTIVE)):
        value = number_of(fact)
        whole = number_of(step[-1]) if step else None
        if fact.unit is Unit.SECONDS and value is not None and whole:
            argument.fact(fact)
            argument.fact(step[-1])
            return value / whole
    return None


def _is_not_faster(argument: Argument, window: Window) -> bool:
    """More devices for one model, or the same over another link."""
    if _by_number(argument, window):
        return True
    told_twice, modes = between_modes(window, _FEWER_TALK, _MORE_TALK)
    if told_twice and told_twice[0].factor >= _LINK_COSTS:
        argument.says(f"{keys_of(modes)}: {told_twice[0].says}")
        return True
    for slow in slowdowns(window, base=_ONE, other=_SEVERAL):
        about = slow.contrast.circumstance or slow.contrast.keys
        bound = _LINK_COSTS if re.search(_LINK_WORDS, about) else _NOT_FASTER
        if re.search(_NOT_A_STEP, slow.contrast.keys) or not re.search(_DEVICES, about):
            continue
        if slow.factor >= bound:
            argument.says(slow.says)
            return True
    return False


def _by_number(argument: Argument, window: Window) -> bool:
    """The same figure for two numbers of devices, and the larger is no faster."""
    told_speeds = [
        (float(found[1] or found[2]), fact, value)
        for fact in window.facts
        if (found := re.search(_NUMBER, plain(fact.key))) is not None
        if (value := number_of(fact)) is not None and value > 0
        if is_of_time(fact) is not None and not re.search(_NOT_A_STEP, plain(fact.key))
    ]
    for fewer, one, first in told_speeds:
        for more, two, second in told_speeds:
            if more <= fewer or one.unit is not two.unit or is_of_time(one) is not is_of_time(two):
                continue
            if re.sub(_NUMBER, "", plain(one.key)) != re.sub(_NUMBER, "", plain(two.key)):
                continue
            gain = first / second if is_of_time(one) else second / first
            if gain <= 1 / _NOT_FASTER:
                argument.fact(one)
                argument.fact(two, f"{gain:.2g} times as fast on {more:g} as on {fewer:g}")
                return True
    return False


def _cite_rounds(argument: Argument, window: Window) -> None:
    """Round trips of a token, and how long each is."""
    count = told(window, r"(round trips|messages|collectives|all ?reduces|syncs) per (token|step)")
    each = told(window, r"round trip|rtt|latency of (one|each)")
    argument.fact(count)
    argument.fact(each)
    for fact in told_all(window, r"\b(gpu|cpu)\b.*\b(busy|util\w*|percent)"):
        argument.fact(fact)


def _slow_path(argument: Argument, window: Window) -> bool:
    found = False
    for line in window.lines_with(_SLOW_PATH)[-1:]:
        argument.says(line.strip()[:200])
        found = True
    for event in window.events_of(LogKind.COLLECTIVE_SLOW)[-1:]:
        argument.says(event.line.strip()[:200])
        found = True
    for change in window.changes_with(_SLOW_PATH):
        argument.says(f"change: {change.what}")
        found = True
    for fact in told_all(window, _LINKS, without=r"kv|transfer|client|download|weights"):
        if re.search(_SLOW_LINK, f"{plain(fact.key)} {fact.raw}".lower()):
            argument.fact(fact)
            found = True
    return found


def _is_several(window: Window) -> bool:
    fact = told(window, r"tensor parallel|^tp( size)?$|world size|^gpus$|num gpus|nodes")
    value = number_of(fact)
    return value is None or value > 1


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
)
