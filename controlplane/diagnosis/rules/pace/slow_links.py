"""What shows that devices talk over a slow path, or over one that is full."""

import re

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.link_speed import bytes_per_second
from controlplane.diagnosis.views.told import plain, told_all
from controlplane.diagnosis.window import Window

SLOW_PATH = (
    r"custom[ _-]?all-?_?reduce (is )?(disabled|off)|lacks GPU P2P"
    r"|(P2P|peer (to peer )?access) (is |was )?(disabled|not (available|supported|possible)|off)"
    r"|via SHM|\[send\] via NET|NET/Socket|NCCL_P2P_DISABLE\W{0,2}1|NCCL_IB_DISABLE\W{0,2}1"
    r"|NCCL_(P2P|IB)_DISABLE( set)?$|no (RDMA|NVLink|IB) |Using network Socket"
    r"|No device found|iommu.*(on|enabled).*p2p|p2p.*blocked"
)
"""Words of engines, of their libraries and of settings."""
_LINKS = (
    r"nvlink|pcie|interconnect|\blinks?\b|p2p|peer (to peer|access)|topology|topo\b|infiniband"
    r"|\bib\b|rdma|roce|ethernet|nic\b|network|nccl|transport|between (gpus|cards|nodes|ranks)"
)
_SLOW_LINK = (
    r"\b(x1|x2|x4|x8|chipset|gen ?[123]|sockets?|tcp|shm|host memory|shared memory|wi-?fi|usb"
    r"|oculink|riser|thunderbolt)\b|\b(1|2\.5|5|10|25) ?g(be|bit|bps|igabit\w*)?\b"
    r"|\b(no|without|lacks?) (nvlink|p2p|peer|rdma|infiniband|ib|bridge)\b|p2p (off|disabled)"
)
_FAST = r"\b(nvlink|nvl|p2p|peer|rdma|infiniband|ib|roce|gdr|gpudirect)\b"
_NONE = (
    r"\s*(no|none|false|off|0|disabled|absent|missing|down|not|unavailable|unsupported|inactive)\b"
)
_TOPOLOGY = r"\b(PHB|SYS|NODE|PXB)\b"
"""As nvidia-smi writes ways between two devices that go through a host bridge or farther."""
_NOT_A_LINK = r"kv|transfer|client|download|weights|tokens|reference|expected"
_MEASURED = r"\b(busbw|algbw|bandwidth|bw|gb s|gib s|mb s|all ?reduce|p2p)\b"
_BETWEEN = r"\b(nccl|rccl|p2p|busbw|algbw|all ?reduce|inter ?gpu|gpu to gpu|peer|nvlink|pcie)\b"
_SLOW_BYTES = 6e9
"""A second, between two devices: PCIe of the third generation with eight lanes does that, NVLink
ten to a hundred times as much."""
_TRAFFIC = (
    r"(?=.*\b(pcie|nic|eth\w*|network|net|link|nvlink|wire|rx|tx|rxpci|txpci)\b)"
    r"(?=.*\b(traffic|used|rx|tx|throughput|measured|busy|util\w*|rate|sent|received|while)\b)"
)
_CAPACITY = (
    r"(?=.*\b(pcie|nic|eth\w*|network|net|link|nvlink|wire)\b)"
    r"(?=.*\b(capacity|max|limit|speed|line rate|peak|of|link|bandwidth)\b)"
)
_FULL = 0.8
"""Of a link: collectives come in bursts, so that the mean of one that is the limit is below all."""


def slow_path(argument: Argument, window: Window) -> bool:
    """Whether the engine, its libraries or somebody's notes say that the fast path is not used."""
    found = False
    for line in window.lines_with(SLOW_PATH)[-1:]:
        argument.says(line.strip()[:200])
        found = True
    for event in window.events_of(LogKind.COLLECTIVE_SLOW)[-1:]:
        argument.says(event.line.strip()[:200])
        found = True
    for change in window.changes_with(SLOW_PATH):
        argument.says(f"change: {change.what}")
        found = True
    for fact in told_all(window, _LINKS, without=_NOT_A_LINK):
        if _is_slow_link(fact):
            argument.fact(fact)
            found = True
    return _measured_slow(argument, window) or found


def _is_slow_link(fact: Fact) -> bool:
    text = f"{plain(fact.key)} {fact.raw}".lower()
    is_missing = re.search(_FAST, plain(fact.key)) and re.match(_NONE, fact.raw.lower())
    return bool(is_missing or re.search(_SLOW_LINK, text) or re.search(_TOPOLOGY, fact.raw))


def _measured_slow(argument: Argument, window: Window) -> bool:
    """Somebody measured what goes between two devices."""
    found = False
    for fact in told_all(window, _BETWEEN, without=_NOT_A_LINK):
        value = bytes_per_second(fact)
        if re.search(_MEASURED, plain(fact.key)) and value is not None and value < _SLOW_BYTES:
            argument.fact(fact)
            found = True
    return found


def is_link_full(argument: Argument, window: Window) -> bool:
    """What goes over it is most of what it can take."""
    for fact in told_all(window, _TRAFFIC, without=r"\bkv\b|transfer|client|download|cap"):
        carried = bytes_per_second(fact)
        if carried is None:
            continue
        for limit in told_all(window, _CAPACITY, without=r"\bkv\b|transfer|client|download"):
            most = bytes_per_second(limit)
            if limit is fact or not most or not _FULL * most <= carried <= 1.2 * most:
                continue
            argument.fact(fact)
            argument.fact(limit, "the link is full")
            return True
    return False
