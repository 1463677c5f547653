"""Tokens are there and the client does not take them."""

import re
from dataclasses import dataclass

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.delivery.engine_pace import is_engine_fine, late_delivery
from controlplane.diagnosis.rules.delivery.reading_pace import (
    ends_later,
    gap_of_one,
    rests_between_reads,
    shown_later,
)
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.contrast import contrasts
from controlplane.diagnosis.views.course import late
from controlplane.diagnosis.views.device import BUSY_CORE, cpu_of
from controlplane.diagnosis.views.told import (
    number_of,
    numbers_in,
    plain,
    says_no,
    told,
    told_all,
    told_number,
)
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, Unit

_BLOCKED = (
    r"(client|consumer|reader|stream|connection|write|send|socket|peer)\w*\b.*\b(block(ed|ing|s on)"
    r"|stall\w*"
    r"|backpressure|not read\w*|full|paused|slow)\b|\b(blocked|slow|stalled|paused)\b.*\b(client"
    r"|reader|consumer|write|socket|connection|stream)s?\b"
)
_NO_CLIENT = (
    r"\b(kv|cache\w*|disks?|logs?|logging|offload\w*|transfers?|rdma|nvme|nccl|nixl|remote|storage"
    r"|ssd|swap\w*|checkpoint\w*|weights?|file\w*|fs|database|db|redis|metrics?|traces?|spans?"
    r"|cuda|gpu|device|layer|prefill|decode)\b"
)
"""Other writers, with queues and buffers of their own."""
_DROPPED = (
    r"\b(dropped|kicked|closed|ended|evicted|disconnected|cut( off)?|skipped)\b.*\b(buffers?|slow"
    r"|lag\w*"
    r"|behind|overflow\w*|backpressure|not reading|queue full|high water)\b"
)
_BUFFERED = (
    r"(send|socket|write|output|tcp|response|egress)\b.*\b(buffer\w*|queue\w*|q|backlog|unsent)"
    r"|(consumer|client|subscriber|reader|delivery|outbound)\b.*\b(queue|backlog|lag)\b"
    r"|(chunks?|bytes|tokens|frames)\b.*\b(waiting|pending|stuck|queued)\b.*\b(socket|buffer|send)"
    r"|undelivered|unsent|unacked|not ?sent|buffered (tokens|bytes|chunks)|zero window|send ?q"
)
_READS = (
    r"(client|consumer|reader|downlink|network|link|mobile)\b.*\b(read\w*|rate|per s|kbit|mbit"
    r"|bandwidth|tokens|drain\w*)\b.*"
)
_LOGGED = (
    r"slow (client|consumer|reader)|client (reads|read) too slow\w*|write (would block|timed? ?out)"
    r"|send (buffer|queue) (is )?full|(client|stream|writer?|socket).{0,40}backpressure"
    r"|client (is )?(not|still) reading|still (sending|draining|flushing) to (the )?client"
    r"|waiting for (the )?(client|downstream) to read|downstream (is )?(slow|blocked)"
    r"|flow control (stall"
    r"|block)"
)
_OF_LINKS = (
    r"undelivered|chunks|backlog|write|unack\w*|retrans\w*|send|blocked|buffer\w*|unsent|window"
)
_OF_THE_WAY = r"\bretrans\w*"
"""Whose link is bad is not yet who is behind."""
_DISTANCE = r"\b(rtt|round trip)\b"
"""A caller overseas has a long one and reads as fast as tokens come."""
_LEAST_BYTES = 65_536
"""What is on its way on a good line: hundreds of chunks of a stream, less than any buffer holds."""
_FEWEST_STREAMS = 3
_APART = 5.0
"""Times the middle one."""
_HALF = 0.5
_MADE = r"\b(from|by|at|of) (the )?engine\b|\b(produced|generated|made|emitted|written)\b"
_TAKEN = r"\b(delivered|received|acked|acknowledged|read|consumed|taken)\b"
_READER = r"\b(consumer|client|reader|user|subscriber|browser)\b"
_NOTHING = 0.001
_FEW_LATE = 8.0
_TIMES = 2.0
"""Answers of which the last token is made are read within moments."""
_FRONT = r"front\w*|api|http|gateway|proxy|server|router"


def judge(window: Window) -> Verdict | None:
    """LIKELY where clients are known to block while the engine keeps its pace; CERTAIN where the
    server's own processes are known to be idle as well."""
    argument = Argument(window)
    seen = _seen(argument, window)
    if seen is None:
        return None
    fine = is_engine_fine(argument, window)
    if fine is False or _makes_less(window):
        return None
    if fine is None and seen.is_blocked and _has_finished(argument, window):
        fine = True
    _cite(argument, window)
    front = cpu_of(window, _FRONT)
    if front is not None and front.value >= BUSY_CORE:
        argument.against(f"the server's front process is busy itself ({front.says})")
        argument.need("whether clients block on write")
        return argument.verdict(Confidence.POSSIBLE)
    is_late = late_delivery(argument, window) or ends_later(argument, window)
    argument.against("queue.overload, interference.prefill: the engine made the tokens in time")
    if fine and seen.is_blocked and (front is not None or is_late or seen.is_buffered):
        argument.against("delivery.front_end_bound: it is the client that does not take them")
        return argument.verdict(Confidence.CERTAIN)
    if seen.is_shown_later:
        argument.against("delivery.front_end_bound: the last byte had left in time")
        return argument.verdict(Confidence.LIKELY)
    is_stuck = bool(fine) and _is_stuck_in_a_socket(argument, window)
    if is_late or ((seen.is_direct or is_stuck) and (fine or seen.is_buffered)):
        return argument.verdict(Confidence.LIKELY)
    argument.need(*_what_would_settle(is_fine=bool(fine)))
    return argument.verdict(Confidence.POSSIBLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What is known of clients that do not take their tokens."""

    is_blocked: bool
    """Some block, or one takes less than the others or than was made."""
    is_buffered: bool
    is_undelivered: bool
    """Answers that are made and under way, by the gateway's count: they are buffered as well."""
    is_logged: bool
    is_shown_later: bool
    """The whole answer was there, and whoever shows it was behind."""

    @property
    def is_direct(self) -> bool:
        """Somebody saw that clients do not read; that much is buffered may have other causes."""
        return self.is_blocked or self.is_logged or self.is_undelivered


def _seen(argument: Argument, window: Window) -> _Seen | None:
    """None where nothing is, or where somebody says that no client blocks."""
    blocked = _blocked(argument, window)
    if blocked is False:
        return None
    is_buffered = _buffered(argument, window)
    is_logged = _logged(argument, window)
    is_undelivered = _undelivered(argument, window)
    rests = rests_between_reads(argument, window)
    stands_apart = gap_of_one(argument, window)
    is_blocked = (
        bool(blocked)
        or rests
        or stands_apart
        or _one_of_many(argument, window)
        or _takes_less(argument, window)
    )
    is_shown_later = shown_later(argument, window)
    if not (is_blocked or is_buffered or is_undelivered or is_logged or is_shown_later):
        return None
    return _Seen(
        is_blocked=is_blocked,
        is_buffered=is_buffered or is_undelivered,
        is_undelivered=is_undelivered,
        is_logged=is_logged,
        is_shown_later=is_shown_later,
    )


def _what_would_settle(*, is_fine: bool) -> tuple[str, ...]:
    of_clients = (
        "clients that block on write",
        "last tokens at clients against the engine's",
        "CPU of the server's front process",
    )
    return of_clients if is_fine else ("time between tokens at the engine", *of_clients)


def _makes_less(window: Window) -> bool:
    """As many run as before, and far fewer tokens come of them: nobody has to be slow for that."""
    now = activity_of(window)
    decode, running = now.decode, now.running
    if decode is None or running is None or len(decode.readings) < 2:
        return False
    best = max(decode.readings, key=lambda reading: reading.value)
    before = running.at(best.at)
    return (
        before is not None
        and decode.last.at > best.at
        and running.last.value >= before.value
        and late(decode) <= _HALF * best.value
    )


def _blocked(argument: Argument, window: Window) -> bool | None:
    """False where somebody says that none is; None where nobody counts."""
    series = window.find(Signal.GATEWAY_SLOW_CLIENTS)
    if series is not None:
        grown = series.increase
        argument.series(series)
        if grown:
            return True
        if grown == 0 and not told_all(window, _BLOCKED, without=_NO_CLIENT):
            return False
    if _were_dropped(argument, window):
        return True
    not_blocked = rf"limit|max|cpu|event loop|request time|timeout|{_NO_CLIENT}"
    fact = told(window, _BLOCKED, without=not_blocked)
    if fact is None:
        return None
    if says_no(fact) or number_of(fact) == 0:
        return False
    argument.fact(fact)
    return True


def _were_dropped(argument: Argument, window: Window) -> bool:
    """Readers who were behind were cut off."""
    dropped = told_all(window, _DROPPED, without=r"limit|max|request")
    gone = next((fact for fact in dropped if (number_of(fact) or 0.0) > 0), None)
    if gone is None:
        return False
    argument.fact(gone)
    for reading in told_all(window, r"\b(read|produced|drained|consumed|delivered)\b.*per s"):
        argument.fact(reading)
    return True


def _has_finished(argument: Argument, window: Window) -> bool:
    """The engine has nothing left to do while clients still wait for what it made."""
    now = activity_of(window)
    inside = told_number(window, r"engine.*(in ?flight|running)")
    idle = now.running is not None and now.running.last.value == 0
    empty = now.waiting is not None and now.waiting.last.value == 0
    if not empty or not (idle or number_of(inside) == 0):
        return False
    argument.fact(inside)
    histogram = window.find_histogram(Signal.E2E)
    mean = None if histogram is None else histogram.mean
    if histogram is not None and mean is not None:
        argument.histogram(
            histogram, mean, f"{histogram.origin.name}: {mean:.3g} s at the engine, and it is done"
        )
    for fact in told_all(window, r"(last|end|e2e|total).*\b(client|user|browser|consumer)\b"):
        argument.fact(fact, "at the client")
    return True


def _undelivered(argument: Argument, window: Window) -> bool:
    """More answers are on their way to clients than the engines work at."""
    undelivered = window.find(Signal.GATEWAY_UNDELIVERED)
    inside = window.find(Signal.GATEWAY_IN_FLIGHT)
    if undelivered is None or inside is None:
        return False
    if late(undelivered) < max(_FEW_LATE, _TIMES * late(inside)):
        return False
    argument.series(undelivered, "made, and not taken by their clients")
    argument.series(inside, "what engines work at")
    return True


def _takes_less(argument: Argument, window: Window) -> bool:
    """Of what the engine made, the client has taken less than half."""
    pace = r"(tokens?|chunks?|events?|bytes)\b.*per s"
    for contrast in contrasts(window, pace, base=r"\b(engine|server|model)\b", other=_READER):
        keys = contrast.keys
        is_pair = re.search(r"\b(engine|server|model)\b", keys) and re.search(_READER, keys)
        if is_pair and contrast.base.key != contrast.other.key and contrast.factor <= _HALF:
            argument.says(contrast.says)
            return True
    for contrast in contrasts(window, r"tokens|chunks|events|bytes", base=_MADE, other=_TAKEN):
        is_pair = re.search(_MADE, contrast.keys) and re.search(_TAKEN, contrast.keys)
        if is_pair and contrast.base.key != contrast.other.key and contrast.factor <= _HALF:
            argument.says(contrast.says)
            return True
    return False


def _one_of_many(argument: Argument, window: Window) -> bool:
    """Figures by stream, of which one stands apart: its link, and not the server, is slow."""
    found = False
    for fact in told_all(window, _OF_LINKS, without=rf"{_DISTANCE}|{_NO_CLIENT}"):
        values = numbers_in(fact.raw) if fact.value is None else ()
        if len(values) < _FEWEST_STREAMS or _is_on_its_way(fact, max(values)):
            continue
        others = sorted(values)[len(values) // 2]
        if max(values) > _APART * max(others, _NOTHING):
            argument.fact(fact, "one stands apart")
            found = found or not re.search(_OF_THE_WAY, plain(fact.key))
    if found:
        for fact in told_all(window, _DISTANCE):
            argument.fact(fact)
        for fact in told_all(window, r"stream.*(tok|per s|rate)|tokens per s", without=r"decode"):
            argument.fact(fact)
    return found


def _buffered(argument: Argument, window: Window) -> bool:
    found = False
    for fact in told_all(window, _BUFFERED, without=rf"max|limit|size|{_NO_CLIENT}"):
        value = number_of(fact) or 0.0
        is_some = value > 0 and not _is_on_its_way(fact, value)
        if is_some or "full" in fact.raw.lower():
            argument.fact(fact, "made, and not taken")
            found = True
    return found


def _is_stuck_in_a_socket(argument: Argument, window: Window) -> bool:
    """The kernel has more to send to it than any line has under way: it does not read."""
    found = [
        fact
        for fact in told_all(window, _SOCKET, without=rf"max|limit|size|window|{_NO_CLIENT}")
        if fact.unit is Unit.BYTES and (number_of(fact) or 0.0) >= _LEAST_BYTES
    ]
    for fact in found:
        argument.fact(fact, "made, and not taken")
    return bool(found)


_SOCKET = r"\b(socket|tcp|kernel)\b.*\b(send|unsent|unacked|queue|sndbuf)\b|\bsend ?q\b|\bunsent\b"


def _is_on_its_way(fact: Fact, value: float) -> bool:
    """Bytes that any connection has under way."""
    return fact.unit is Unit.BYTES and value < _LEAST_BYTES


def _logged(argument: Argument, window: Window) -> bool:
    lines = window.lines_with(_LOGGED)
    for line in lines[-2:]:
        argument.says(line.strip()[:200])
    return bool(lines)


def _cite(argument: Argument, window: Window) -> None:
    now = activity_of(window)
    argument.series(now.running)
    argument.series(now.waiting)
    argument.series(now.kv)
    argument.fact(
        told_number(window, _READS, without=r"blocked|buffer|max"), "what the client takes"
    )
    for change in window.changes:
        argument.says(f"change: {change.what}")


SLOW_CLIENT = Rule(
    id="delivery-slow-client",
    mechanism=Mechanism.DELIVERY_SLOW_CLIENT,
    judge=judge,
    needs=(
        "clients that block on write, or bytes that wait in send buffers",
        "time between tokens at the engine",
    ),
    told_apart="From a front end that is bound by clients that block while the server idles, from "
    "a "
    "slow engine by tokens that are made in time.",
    remedy="Bound what is buffered for a client and end those that do not read; let the engine go "
    "on "
    "without them.",
    hides="Larger buffers hide it until memory runs out, and hold blocks of requests that are "
    "done.",
)
