"""How long moving one request's KV takes, as counted, told or logged."""

import re
from dataclasses import dataclass

from controlplane.diagnosis.citing import says
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.views.means import reckoned
from controlplane.diagnosis.views.told import number_of, plain, told_all
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, Unit

_ACTS = (
    r"load\w*|fetch\w*|pull\w*|push\w*|mov\w*|cop(y|ies|ied|ying)|recv|receiv\w*|send\w*|sent"
    r"|migrat\w*|submit\w*|post\w*|poll\w*|handshake|write\w*|read\w*|restor\w*|stag(e|ing)"
    r"|import\w*|export\w*|ship\w*|stream\w*|xfer|exchange|gather|scatter|store|sync"
)
TRANSFER = (
    r"\b(transfer\w*|xfer\w*|hand ?off|hand ?over|nixl|mooncake|lmcache|hicache|onboard\w*"
    rf"|offload\w*|(kv|cache|blocks?|pages?)( cache)?( blocks?| pages?)? ({_ACTS})|remote kv"
    r"|swap (in|out)|load back|prefetch\w*|d2h|h2d|rdma (read|write))\b"
)
"""Words of moving KV between workers or tiers."""
_TIMED = (
    r"(?:nixl|mooncake|lmcache|xfer|kv.?transfer|kv.?cache.?transfer|write_blocks|read_blocks).*?"
    r"(?:time|took|cost|latency)[^\d]{0,40}([\d.]+) ?(ms|s)\b"
)
THROUGHPUT = r"transfer engine throughput: [\d.]+ ?[kmg]i?b/s"
_THROUGHPUT = re.compile(r"transfer engine throughput: ([\d.]+) ?([kmg]i?)?b/s", re.IGNORECASE)
_BYTES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
_NOT_A_TIME = (
    r"size|bytes|gib|queue|fail|timeout|per s|\bweights?\b|\b(start|end|began|begin|ended|stamp)\b"
)
_NOT_ONE_MOVE = (
    rf"{_NOT_A_TIME}|before|expected|without|per (token|block|page|layer)|interval|budget|p9\d"
    r"|max\b|ttl|lifetime"
)
_SLOWEST = 0.9


@dataclass(frozen=True, slots=True)
class Move:
    """Seconds of moving one request's KV."""

    seconds: float
    says: str
    facts: tuple[Fact, ...] = ()

    @property
    def is_of_the_slowest(self) -> bool:
        """Told as a high percentile, and not of what most requests take."""
        return any((fact.quantile or 0.0) >= _SLOWEST for fact in self.facts)


def throughput_of(line: str) -> float | None:
    """Bytes a second, of a line that `THROUGHPUT` finds."""
    found = _THROUGHPUT.search(line)
    return None if found is None else float(found[1]) * _BYTES[(found[2] or "")[:1].lower()]


def move_of(window: Window, whole: float | None) -> Move | None:
    """None where nobody says. `whole` is the time until the first token: parts that were told
    apart are added up where they fit into it."""
    histogram = window.find_histogram(Signal.TRANSFER_TIME)
    mean = None if histogram is None else histogram.mean
    if histogram is not None and mean is not None:
        return Move(mean, f"{histogram.origin.name}: mean {mean:.3g} s, {reckoned(histogram)}")
    return _told(window, whole) or _logged(window) or _timed_in_words(window)


def _told(window: Window, whole: float | None) -> Move | None:
    facts = _times(window, _NOT_ONE_MOVE) or _times(window, _NOT_A_TIME)
    if not facts:
        return None
    newest = {fact.key: fact for fact in facts if fact.at == facts[-1].at}
    parts = tuple(newest.values())
    added = sum(number_of(fact) or 0.0 for fact in parts)
    is_whole = any(re.search(r"\b(total|whole)\b", plain(fact.key)) for fact in parts)
    if len(parts) > 1 and whole is not None and added <= whole and not is_whole:
        return Move(added, f"{' + '.join(says(fact) for fact in parts)}: {added:.3g} s", parts)
    last = facts[-1]
    return Move(number_of(last) or 0.0, says(last), (last,))


def _times(window: Window, without: str) -> list[Fact]:
    return [
        fact
        for fact in told_all(window, TRANSFER, without=without)
        if fact.unit is Unit.SECONDS and number_of(fact)
    ]


def _logged(window: Window) -> Move | None:
    logged = [
        event for event in window.events_of(LogKind.TRANSFER) if event.fields.get("seconds", 0) > 0
    ]
    if not logged:
        return None
    seconds = sorted(event.fields["seconds"] for event in logged)[len(logged) // 2]
    return Move(
        seconds, f"{len(logged)} transfers, median {seconds:.3g} s: {logged[-1].line.strip()}"
    )


def _timed_in_words(window: Window) -> Move | None:
    """A line of a transfer library that says how long a whole move took."""
    found = [
        (float(said[1]) * (0.001 if said[2].lower() == "ms" else 1.0), line.strip())
        for line in window.lines_with(_TIMED)
        if (said := re.search(_TIMED, line, re.IGNORECASE)) is not None
    ]
    if not found:
        return None
    seconds, line = max(found)
    return Move(seconds, line[:200])
