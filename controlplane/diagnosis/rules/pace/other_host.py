"""The same device behind another processor: what is faster there was the host's."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.device import BUSY_CORE
from controlplane.diagnosis.views.slowdown import Slowdown, slowdowns
from controlplane.diagnosis.views.told import number_of, share_of, told_all
from controlplane.diagnosis.window import Window

_FASTER = 1.3
_WAITS = 0.85
"""Of the time: the device on the slower host has less to do than that."""
_BUSIER = 0.1
"""The device is that much busier with the faster processor: it gets its work sooner."""
_CPU = r"^(host )?(cpu|processor)( model| name| type)?$"
_GPU = r"^(gpu|card|device|accelerator)( model| name| type)?$"
_ENGINE = r"(?=.*\bcpu\b)(?=.*\b(engine|core|process|scheduler|worker|python|main|thread)\b)"
_USAGE = r"\b(gpus?|device|sm)\b.*\b(util\w*|busy|usage)\b"


def with_another_cpu(now: Activity) -> Verdict | None:
    """CERTAIN where the engine's own thread is known to be full as well, else LIKELY; None unless
    one device was measured behind two processors."""
    hosts = _two_hosts(now.window)
    if hosts is None or (now.waiting is not None and now.waiting.last.value > 0):
        return None
    pace = _pace(now.window, hosts)
    usage = [_at(now.window, _USAGE, host.at) for host in hosts]
    if pace is None:
        return None
    slow, fast = (1, 0) if pace.factor > 1 else (0, 1)
    slower, faster = share_of(usage[slow]), share_of(usage[fast])
    if slower is None or slower >= _WAITS or (faster is not None and faster < slower + _BUSIER):
        return None
    argument = Argument(now.window)
    argument.says(f"the same device: {hosts[slow].raw} against {hosts[fast].raw}")
    argument.says(pace.says)
    argument.fact(usage[slow], "the device waits")
    argument.fact(usage[fast], "with the faster processor")
    argument.series(now.running)
    argument.series(now.waiting)
    argument.series(now.kv)
    core = _at(now.window, _ENGINE, hosts[slow].at)
    is_full = (number_of(core) or 0.0) >= BUSY_CORE
    argument.fact(core if is_full else None, "one core is all that such a process can use")
    argument.against("batch.underfilled: the same batch is faster with another processor")
    return argument.verdict(Confidence.CERTAIN if is_full else Confidence.LIKELY)


def _two_hosts(window: Window) -> tuple[Fact, Fact] | None:
    """Two processors by name, each told at a time of its own; None where devices differ too."""
    named = {fact.raw: fact for fact in told_all(window, _CPU) if fact.value is None}
    devices = {fact.raw for fact in told_all(window, _GPU) if fact.value is None}
    if len(named) != 2 or len(devices) > 1:
        return None
    first, second = sorted(named.values(), key=lambda fact: fact.at)
    return None if first.at == second.at else (first, second)


def _pace(window: Window, hosts: tuple[Fact, Fact]) -> Slowdown | None:
    """What differs most between the two, of times and speeds told of both."""
    found = [
        slow
        for slow in slowdowns(window)
        if (slow.contrast.base.at, slow.contrast.other.at) == (hosts[0].at, hosts[1].at)
        and not 1 / _FASTER < slow.factor < _FASTER
    ]
    return max(found, key=lambda slow: max(slow.factor, 1 / slow.factor), default=None)


def _at(window: Window, pattern: str, moment: float) -> Fact | None:
    found = [fact for fact in told_all(window, pattern, without="mem|kv") if fact.at == moment]
    return next((fact for fact in reversed(found) if number_of(fact) is not None), None)
