"""Moving KV between workers or tiers takes longer than computing."""

import re
from dataclasses import dataclass

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.placement.kv_moves import (
    THROUGHPUT,
    TRANSFER,
    Move,
    move_of,
    throughput_of,
)
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import early, is_sustained, late, stretch_while
from controlplane.diagnosis.views.link_speed import bytes_per_second
from controlplane.diagnosis.views.means import reckoned
from controlplane.diagnosis.views.slowdown import slowdowns
from controlplane.diagnosis.views.told import number_of, plain, share_of, told_all, told_number
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.latency import FIRST_TOKEN
from controlplane.diagnosis.words.shares import SHARE
from dataplane.engine_metrics.signal import Signal, Unit

_SHARE = 0.4
"""Of TTFT; a transfer that overlaps with prefill is hidden almost whole."""
_MOST = 0.6
_QUEUE = 4.0
_LEAST_SECONDS = 15.0
_COMPUTE = r"(prefill|recompute|compute|forward)\b(?!.*\b(transfer|queue|wait|chunk|workers?)\b)"
_WAY = r"tcp|socket|ethernet|rdma|infiniband|\bib\b|roce|nvlink|pcie|nfs|disk|ssd|gbit|gbps|ucx"


def judge(window: Window) -> Verdict | None:
    """LIKELY where moving takes as long as computing, or a large part of the first token's time;
    CERTAIN where size and speed of the link account for it."""
    argument = Argument(window)
    move = move_of(window, _whole(window))
    share = _share(argument, window, move)
    if share is not None and share < _SHARE:
        return None
    crawls = _crawls(argument, window)
    piled = crawls or _piles_up(argument, window)
    rest = share is None and _is_the_rest_of_ttft(argument, window)
    if move is None and not piled and share is None and not rest:
        return None
    _cite_move(argument, move)
    accounted = move is not None and _is_accounted_for(argument, window, move)
    slower = _is_slower_with(argument, window)
    _cite_way(argument, window)
    argument.against("phase.mismatch: both phases wait for what lies between them")
    argument.against("queue.overload: neither phase is out of room to compute")
    if move is not None and _says_little(argument, window, move, share, is_accounted=accounted):
        return argument.verdict(Confidence.POSSIBLE)
    if crawls and share is None:
        return argument.verdict(Confidence.CERTAIN)
    if share is not None:
        sure = share >= _MOST or accounted
        return argument.verdict(Confidence.CERTAIN if sure else Confidence.LIKELY)
    if piled or slower or accounted or rest:
        return argument.verdict(Confidence.LIKELY)
    argument.need("TTFT, or prefill time, of the same requests", "bytes moved for each request")
    return argument.verdict(Confidence.POSSIBLE)


def _cite_move(argument: Argument, move: Move | None) -> None:
    """What moved, and how long that took."""
    if move is not None:
        for fact in move.facts:
            argument.fact(fact)
        argument.says(move.says)


def _says_little(
    argument: Argument, window: Window, move: Move, share: float | None, *, is_accounted: bool
) -> bool:
    """What a move takes cannot be what first tokens wait for: too short, of others, or of the
    slowest alone."""
    if share is not None and move.seconds < _LEAST_WAIT:
        argument.against(f"a first token is {move.seconds * 1000:.3g} ms later: nobody feels it")
        return True
    first = window.find_histogram(Signal.TTFT)
    mean = None if first is None else first.mean
    if mean is None:
        return False
    if move.seconds > _OTHERS * mean:
        argument.against(f"it takes longer than a first token ({mean:.3g} s): it is of others")
        argument.need("TTFT of the same requests")
        return True
    if move.is_of_the_slowest and not is_accounted:
        argument.against(f"the slowest moves say little of a mean first token ({mean:.3g} s)")
        argument.need("mean time of moving one request's KV")
        return True
    return False


def _share(argument: Argument, window: Window, move: Move | None) -> float | None:
    """Of TTFT, or against computing the same (more than half of both together)."""
    for fact in reversed(told_all(window, TRANSFER, without=_NOT_A_SHARE)):
        if re.search(rf"{SHARE}|of ttft", f"{plain(fact.key)} {fact.raw}"):
            share = share_of(fact)
            if share is not None:
                argument.fact(fact)
                return share
    if move is None:
        return None
    whole = _mean_or_told(window, Signal.TTFT, FIRST_TOKEN)
    if whole is not None and whole[0] > 0:
        argument.says(whole[1])
        return move.seconds / whole[0]
    compute = _mean_or_told(window, Signal.PREFILL_TIME, _COMPUTE)
    if compute is not None and compute[0] > 0:
        argument.says(compute[1])
        return move.seconds / (move.seconds + compute[0])
    return None


def _whole(window: Window) -> float | None:
    """Seconds until the first token."""
    found = _mean_or_told(window, Signal.TTFT, FIRST_TOKEN)
    return None if found is None else found[0]


def _is_the_rest_of_ttft(argument: Argument, window: Window) -> bool:
    """Computing the prompt is little of it, no prompt waits to be computed, and many are between
    those that compute and those that decode."""
    whole = _mean_or_told(window, Signal.TTFT, FIRST_TOKEN)
    compute = _mean_or_told(window, Signal.PREFILL_TIME, _COMPUTE)
    moving = window.find(Signal.TRANSFER_QUEUE)
    if whole is None or compute is None or moving is None or late(moving) < _QUEUE:
        return False
    waiting = window.find(Signal.WAITING) or window.find(Signal.PREFILL_QUEUE)
    if waiting is None or late(waiting) > _FEW_WAIT * late(moving):
        return False
    if whole[0] <= 0 or 1 - compute[0] / whole[0] < _MOST or not _decode_has_room(argument, window):
        return False
    argument.says(whole[1])
    argument.says(f"{compute[1]}: the rest is neither computing nor waiting for it")
    for series in window.all_series(Signal.TRANSFER_QUEUE):
        argument.series(series, "KV on its way")
    argument.series(waiting, "hardly a prompt waits")
    argument.series(window.find(Signal.DECODE_QUEUE))
    for line in window.lines_with(THROUGHPUT)[-4:]:
        argument.says(line.strip()[:200])
    for fact in told_all(window, r"throughput|bandwidth|usage|link"):
        argument.fact(fact)
    return True


_NOT_A_SHARE = (
    r"success|\bok\b|fail|error|util|progress|\bhits?\b|complet|memory|full|fill|cpu|buffer|count"
)
_LEAST_WAIT = 0.1
"""Seconds of moving that somebody feels in a first token."""
_OTHERS = 1.1
"""Times a whole first token, of which moving is a part: what takes longer is of other requests."""
_FEW_WAIT = 0.1
"""Of what is on its way."""


def _mean_or_told(window: Window, signal: Signal, pattern: str) -> tuple[float, str] | None:
    facts = [
        fact
        for fact in told_all(window, pattern, without=rf"before|without|base|expected|{TRANSFER}")
        if fact.unit is Unit.SECONDS and number_of(fact)
    ]
    middles = [fact for fact in facts if fact.quantile in (0.5, None)] or facts
    if middles:
        return number_of(middles[-1]) or 0.0, f"{middles[-1].key} {middles[-1].raw}"
    histogram = window.find_histogram(signal)
    mean = None if histogram is None else histogram.mean
    if histogram is None or mean is None:
        return None
    return mean, f"{histogram.origin.name}: mean {mean:.3g} s, {reckoned(histogram)}"


def _piles_up(argument: Argument, window: Window) -> bool:
    """Requests whose KV is on its way, more and more of them."""
    moving = stretch_while(window.find(Signal.TRANSFER_QUEUE), lambda value: value > 0)
    told_queue = told_number(
        window,
        r"(?=.*\b(transfer\w*|remote kvs?)\b)(?=.*\b(queue\w*|waiting|pending|in ?flight)\b)",
    )
    if moving is None:
        value = number_of(told_queue)
        if told_queue is None or value is None or value < _QUEUE:
            return False
        argument.fact(told_queue, "KV on its way")
        was = [fact for fact in window.facts if fact.key == told_queue.key]
        grew = (number_of(was[0]) or 0.0) < value and was[0].at < told_queue.at
        return grew and _decode_has_room(argument, window)
    argument.series(moving, "KV on its way")
    if not is_sustained(moving, _LEAST_SECONDS) or late(moving) < _QUEUE:
        return False
    failures = window.find(Signal.TRANSFER_FAILURES)
    argument.series(failures)
    return late(moving) >= early(moving) and _decode_has_room(argument, window)


def _crawls(argument: Argument, window: Window) -> bool:
    """In each reading many are on their way while no prompt waits, and all the time far less goes
    over the link than it can take: it is not for want of work."""
    moving = window.find(Signal.TRANSFER_QUEUE)
    waiting = window.find(Signal.WAITING)
    if moving is None or len(moving.readings) < 2 or moving.min < _QUEUE:
        return False
    if waiting is None or late(waiting) > _FEW_WAIT * late(moving):
        return False
    if not is_sustained(moving, _LEAST_SECONDS) or late(moving) < _STAYS * early(moving):
        return False
    used = _little_used(window)
    if used is None or not _decode_has_room(argument, window):
        return False
    for series in window.all_series(Signal.TRANSFER_QUEUE):
        argument.series(series, "KV on its way, and it does not get less")
    argument.series(waiting, "hardly a prompt waits")
    for series in window.all_series(Signal.BATCH_COMPUTED_TOKENS):
        argument.series(series, "there is little to compute")
    _cite_used(argument, used)
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Used:
    """Of a link, by all who tell their speed."""

    link: Fact
    share: float
    num_tellers: int
    lines: list[str]
    facts: list[Fact]


def _little_used(window: Window) -> _Used | None:
    """None where somebody uses more than little of it, or fewer than two readings say what is used.
    Those who share a link use it together: the fastest reading of each is added up."""
    lines = [line for line in window.lines_with(THROUGHPUT) if throughput_of(line) is not None]
    facts = told_all(window, _TOLD_SPEED, without=r"\b(link|nic|max|limit|peak)\b")
    told = [fact for fact in facts if bytes_per_second(fact) is not None]
    about = told_all(window, r"\b(link|nic|network|wire|rdma)\b")
    links = [(rate, fact) for fact in about if (rate := bytes_per_second(fact)) is not None]
    fastest: dict[str, float] = {}
    for line in lines:
        writer = _WRITER.search(line)
        who = line if writer is None else writer[1]
        fastest[who] = max(fastest.get(who, 0.0), throughput_of(line) or 0.0)
    for fact in told:
        fastest[fact.key] = max(fastest.get(fact.key, 0.0), bytes_per_second(fact) or 0.0)
    if len(lines) + len(told) < _READINGS or not links:
        return None
    rate, link = links[-1]
    share = sum(fastest.values()) / rate
    if share > _LITTLE:
        return None
    return _Used(link=link, share=share, num_tellers=len(fastest), lines=lines, facts=told)


def _cite_used(argument: Argument, used: _Used) -> None:
    for line in _slowest_and_fastest(used.lines):
        argument.says(line.strip()[:200])
    for fact in used.facts:
        argument.fact(fact)
    share = f"{used.share:.2g} of it is used by the {used.num_tellers} that tell their speed"
    argument.fact(used.link, f"at most {share}")


_READINGS = 2
_WRITER = re.compile(r"^[IWE]\d{4} [\d:.]+ +(\d+) ")
"""The thread that wrote a line of glog: one for each rank's engine."""


def _slowest_and_fastest(lines: list[str]) -> list[str]:
    ordered = sorted(lines, key=lambda line: throughput_of(line) or 0.0)
    return list(dict.fromkeys((*ordered[:1], *ordered[-1:])))


_TOLD_SPEED = r"\b(kv|transfer)\b.*\b(throughput|bandwidth|speed|rate|[kmg]i?b (per )?s)\b"
_STAYS = 0.9
_LITTLE = 0.05
"""Of the link: a path that is used so little in each reading is held up by how it is used."""


def _decode_has_room(argument: Argument, window: Window) -> bool:
    """Otherwise it is decode that does not take them."""
    decode = window.find(Signal.DECODE_QUEUE)
    waits = decode is not None and late(decode) >= _QUEUE
    kv = window.find(Signal.KV_USAGE)
    is_full = kv is not None and late(kv) >= 0.9
    if waits or is_full:
        argument.against("decode itself is short of room")
        return False
    return True


def _is_accounted_for(argument: Argument, window: Window, move: Move) -> bool:
    """Bytes over the speed of the link are the time that it takes."""
    size = told_number(window, r"(kv|transfer|moved|request|payload).*", without=_NOT_SIZE)
    sizes = [
        fact
        for fact in told_all(window, r"kv|transfer|moved|payload|per request", without=_NOT_SIZE)
        if fact.unit is Unit.BYTES and number_of(fact)
    ]
    speeds = told_all(window, r"(gbit|gbps|gb|gib|mb|mib|bandwidth|link)\b.*(per s|s)?$")
    rates = [rate for fact in speeds if (rate := bytes_per_second(fact)) is not None]
    if size is None or not sizes or not rates:
        return False
    expected = (number_of(sizes[-1]) or 0.0) / rates[-1]
    if not 0.5 * move.seconds <= expected <= 1.5 * move.seconds:
        return False
    argument.says(
        f"{sizes[-1].key} {sizes[-1].raw} at {number(rates[-1] / 1e9)} GB/s is {expected:.2g} s"
    )
    return True


_NOT_SIZE = r"per s|util|usage|cache size|total|limit|pool|memory"


def _is_slower_with(argument: Argument, window: Window) -> bool:
    """With moving slower than without: computing again would be faster."""
    for slow in slowdowns(window):
        keys = f"{plain(slow.contrast.base.key)} {plain(slow.contrast.other.key)}"
        if slow.factor > 1.2 and (
            re.search(TRANSFER, keys) or window.changes_with(TRANSFER + r"|disagg")
        ):
            argument.says(slow.says)
            return True
    return False


def _cite_way(argument: Argument, window: Window) -> None:
    for fact in told_all(window, rf"{_WAY}|link|bandwidth|kv (bytes|size)|bytes per request"):
        argument.fact(fact)
    for fact in window.facts:
        if re.search(_WAY, fact.raw.lower()):
            argument.fact(fact)
    for change in window.changes:
        argument.says(f"change: {change.what}")


TRANSFER_BOUND = Rule(
    id="transfer-bound",
    mechanism=Mechanism.TRANSFER_BOUND,
    judge=judge,
    needs=(
        "time that moving one request's KV takes, or requests whose KV is on its way",
        "TTFT, or prefill time, of the same requests",
    ),
    told_apart="From a wrong split of phases by both that wait for the link, from slow collectives "
    "by traffic once for a request, from overload by room on both sides.",
    remedy="A faster path (RDMA, NVLink), overlap with prefill by layers, fewer bytes (smaller "
    "types), or compute again what is cheaper to compute.",
    hides="More decode workers hide the wait for a while and load the link further.",
    explains=frozenset({Mechanism.PHASE_MISMATCH, Mechanism.QUEUE_OVERLOAD}),
)
