"""What operators and gateways know beside the engine, in whatever words they wrote it down.

A key is split into words; units, percentiles and time spans are taken out of it; and where people
have several words for one thing, the one that rules ask for is added. The tables below are all
there is to it: whoever meets a key that nobody thought of adds its words here.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.signal import Unit
from controlplane.diagnosis.sources.quantity import number_of

_UNITS: dict[str, tuple[Unit, float, str]] = {
    "ns": (Unit.SECONDS, 1e-9, "ns"),
    "us": (Unit.SECONDS, 1e-6, "us"),
    "ms": (Unit.SECONDS, 1e-3, "ms"),
    "msec": (Unit.SECONDS, 1e-3, "ms"),
    "millis": (Unit.SECONDS, 1e-3, "ms"),
    "milliseconds": (Unit.SECONDS, 1e-3, "ms"),
    "s": (Unit.SECONDS, 1.0, "s"),
    "sec": (Unit.SECONDS, 1.0, "s"),
    "secs": (Unit.SECONDS, 1.0, "s"),
    "second": (Unit.SECONDS, 1.0, "s"),
    "seconds": (Unit.SECONDS, 1.0, "s"),
    "minute": (Unit.SECONDS, 60.0, "min"),
    "minutes": (Unit.SECONDS, 60.0, "min"),
    "h": (Unit.SECONDS, 3600.0, "h"),
    "hour": (Unit.SECONDS, 3600.0, "h"),
    "hours": (Unit.SECONDS, 3600.0, "h"),
    "days": (Unit.SECONDS, 86400.0, "days"),
    "bytes": (Unit.BYTES, 1.0, "bytes"),
    "kb": (Unit.BYTES, 1024.0, "KB"),
    "kib": (Unit.BYTES, 1024.0, "KiB"),
    "mb": (Unit.BYTES, 1024.0**2, "MB"),
    "mib": (Unit.BYTES, 1024.0**2, "MiB"),
    "gb": (Unit.BYTES, 1024.0**3, "GB"),
    "gib": (Unit.BYTES, 1024.0**3, "GiB"),
    "tb": (Unit.BYTES, 1024.0**4, "TB"),
    "tib": (Unit.BYTES, 1024.0**4, "TiB"),
    "percent": (Unit.RATIO, 0.01, "%"),
    "pct": (Unit.RATIO, 0.01, "%"),
    "%": (Unit.RATIO, 0.01, "%"),
    "ratio": (Unit.RATIO, 1.0, ""),
    "rps": (Unit.PER_SECOND, 1.0, "/s"),
    "qps": (Unit.PER_SECOND, 1.0, "/s"),
}
"""Word -> unit, factor, and how it is written behind the number. Memory is counted in powers of
two whatever it is called: engines and nvidia-smi do so."""

_PER = {"s": 1.0, "sec": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0, "h": 3600.0, "hour": 3600}

_TOKENS = frozenset({"tokens", "token", "tok", "toks"})
_COUNTED = _TOKENS | {"req", "reqs", "requests"}
"""Before `s` or `per s` these make a rate."""

_TIMED = frozenset(
    (
        *("age", "ago", "wait", "waited", "waiting", "time", "duration", "uptime", "took"),
        *("since", "oldest", "idle", "delay", "timeout"),
    )
)
"""Beside one of these `min` is a minute; otherwise it is the least value."""

_SPANS = frozenset({"last", "past", "over", "in", "within", "every"})
"""Before `60_s` these say over which time something was counted."""

_SAME: tuple[tuple[str, str], ...] = (
    # what is under way
    ("inflight", "in flight"),
    ("outstanding", "in flight"),
    ("concurrent requests", "in flight"),
    ("open requests", "in flight"),
    ("active requests", "in flight"),
    ("requests open", "in flight"),
    ("open streams", "in flight streams"),
    ("active streams", "in flight streams"),
    ("requests in parallel", "in flight"),
    ("concurrency", "concurrent"),
    ("arrival", "arrivals"),
    ("arrived", "arrivals"),
    ("incoming", "arrivals"),
    ("requests received", "arrivals"),
    ("received requests", "arrivals"),
    ("completed", "completions"),
    ("completion rate", "completions"),
    ("finished requests", "completions"),
    ("queued", "queue waiting"),
    ("pending", "waiting"),
    ("backlog", "queue waiting"),
    ("queue depth", "waiting"),
    ("queue length", "waiting"),
    ("queue size", "waiting"),
    ("preempted", "preemptions"),
    ("preemption", "preemptions"),
    ("retracted", "retractions"),
    ("retraction", "retractions"),
    ("retry", "retries"),
    ("retried", "retries"),
    ("refused", "rejected"),
    ("rejections", "rejected"),
    ("rejects", "rejected"),
    ("shed", "rejected"),
    ("http 429", "rejected"),
    ("status 429", "rejected"),
    ("429s", "rejected"),
    ("http 503", "rejected"),
    ("cancels", "cancelled"),
    ("canceled", "cancelled"),
    ("cancellations", "cancelled"),
    ("disconnects", "cancelled"),
    ("disconnected", "cancelled"),
    ("aborted", "cancelled"),
    ("aborts", "cancelled"),
    # memory
    ("vram", "gpu memory"),
    ("hbm", "gpu memory"),
    ("gpu mem", "gpu memory"),
    ("gpu ram", "gpu memory"),
    ("device memory", "gpu memory"),
    ("device mem", "gpu memory"),
    ("cuda memory", "gpu memory"),
    ("nvidia smi used", "gpu memory used"),
    ("smi used", "gpu memory used"),
    ("card", "gpu"),
    ("cards", "gpus"),
    ("in use", "used"),
    ("ram", "host memory"),
    ("system memory", "host memory"),
    ("host mem", "host memory"),
    ("cpu memory", "host memory"),
    ("container limit", "host memory limit"),
    ("cgroup limit", "host memory limit"),
    ("memory limit", "limit"),
    # limits
    ("ctx", "context"),
    ("max model len", "context limit"),
    ("max seq len", "context limit"),
    ("context len", "context limit"),
    ("context length", "context limit"),
    ("context size", "context limit"),
    ("context window", "context limit"),
    ("ctx size", "context limit"),
    ("ctx len", "context limit"),
    ("n ctx", "context limit"),
    ("max num seqs", "seats"),
    ("max running requests", "seats"),
    ("max batch size", "seats"),
    ("n parallel", "seats"),
    ("= parallel", "seats"),
    ("= np", "seats"),
    ("slots", "seats"),
    ("max num batched tokens", "prefill chunk"),
    ("chunked prefill size", "prefill chunk"),
    ("max prefill tokens", "prefill chunk"),
    ("chunk tokens", "prefill chunk"),
    ("chunk size", "prefill chunk"),
    ("n ubatch", "prefill chunk"),
    ("ubatch size", "prefill chunk"),
    ("kv pool", "kv cache pool"),
    ("kv cache", "kv cache pool"),
    ("max total tokens", "kv cache pool"),
    ("max total num tokens", "kv cache pool"),
    ("page size", "block size"),
    ("mem fraction static", "gpu memory utilization"),
    ("gpu mem util", "gpu memory utilization"),
    ("gpu memory util", "gpu memory utilization"),
    # work
    ("largest", "longest"),
    ("biggest", "longest"),
    ("input tokens", "prompt tokens"),
    ("prompt len", "prompt tokens"),
    ("prompt length", "prompt tokens"),
    ("completion tokens", "output tokens"),
    ("generated tokens", "output tokens"),
    # times
    ("time to first token", "ttft"),
    ("first token latency", "ttft"),
    ("inter token latency", "itl"),
    ("time between tokens", "itl"),
    ("gap between tokens", "itl"),
    ("token gap", "itl"),
    ("tbt", "itl"),
    ("time per output token", "tpot"),
    ("end to end", "e2e"),
    ("request latency", "e2e"),
    ("average", "mean"),
    ("avg", "mean"),
    ("median", "p50"),
    # devices, processes, clients
    ("gpu util", "gpu busy"),
    ("gpu utilization", "gpu busy"),
    ("gpu usage", "gpu busy"),
    ("gpu busy", "gpu util"),
    ("device util", "gpu busy"),
    ("sm util", "gpu busy"),
    ("front end", "front"),
    ("frontend", "front"),
    ("api server", "front"),
    ("apiserver", "front"),
    ("blocked on write", "blocked clients"),
    ("clients blocked", "blocked"),
    ("pods", "replicas"),
    ("pod", "replica"),
    ("instances", "replicas"),
    ("hit ratio", "hit rate"),
    ("cached share", "hit rate"),
    ("canary", "probe"),
    ("healthz", "health"),
    ("health check", "health"),
    ("healthcheck", "health"),
)
"""Where a key holds the words on the left side by side, those on the right are added; `=` stands
for the beginning of the key."""

_LIMITS = frozenset({"max", "limit", "maximum"})
"""`max_concurrent_requests` is a limit, and not what is in flight."""

_INSTEAD = {
    "utilisation": "utilization",
    "memory util": "memory utilization",
    "mem util": "mem utilization",
}
"""Put in place: `gpu_mem_util` is a setting, and not how busy a device is."""

_SHARES = frozenset({"util", "utilization", "usage", "busy", "rate", "share", "fraction", "perc"})
_MOST_SHARE = 1.5
"""A share above it was written in percent."""

_CAMEL = re.compile(
    r"(?<=[a-z0-9])(?=[A-Z][a-z])|(?<=[a-z][a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
)
_SPLIT = re.compile(r"[\s_.\-/:,()\[\]]+")
_NUMBERED = re.compile(r"(gpu|card|device|rank|node|replica|worker|dp|tp)(\d+)")
_QUANTILE = re.compile(r"p(\d{2,4})")
_VALUE = re.compile(
    r"(?P<number>-?\d[\d,_]*(?:\.\d+)?(?:e[+-]?\d+)?)\s*(?P<unit>[a-zA-Zµ%]+(?:/[a-z]+)?)?",
    re.IGNORECASE,
)


@dataclass(slots=True)
class _Key:
    """A key, read word by word."""

    words: list[str] = field(default_factory=list)
    unit: Unit | None = None
    factor: float = 1.0
    shown: str = ""
    quantile: float | None = None
    load: float | None = None
    over_seconds: float | None = None


def facts_of(values: Mapping[str, object], at: float) -> tuple[Fact, ...]:
    """One fact for each key, and one more for each part of a value that is a table or a list."""
    return tuple(fact for key, value in values.items() for fact in _facts(str(key), value, at))


def fact_of(key: str, value: object, at: float) -> Fact:
    """Of one key with one value."""
    return _fact(key, _read_key(key), value, at)


def _facts(key: str, value: object, at: float) -> Iterator[Fact]:
    read = _read_key(key)
    parts = _parts(value)
    if not parts:
        yield _fact(key, read, value, at)
        return
    told = ", ".join(f"{name} {_text(part)}" for name, part in parts.items())
    yield _fact(key, read, told, at)
    for name, part in parts.items():
        if _parts(part):
            yield from _facts(f"{key}.{name}", part, at)
        else:
            yield _fact(f"{key}.{name}", read, part, at, name)


def _parts(value: object) -> dict[str, object]:
    """Of a table or a list; empty for anything else."""
    if isinstance(value, Mapping):
        return {str(name): part for name, part in value.items()}
    if isinstance(value, list | tuple):
        return {str(index): part for index, part in enumerate(value)}
    return {}


def _fact(key: str, read: _Key, told: object, at: float, part: str | None = None) -> Fact:
    text = _text(told)
    value, unit, shown = _value(text, read)
    return Fact(
        key=key,
        raw=f"{text} {shown}".rstrip() if shown and shown[0] != "/" else f"{text}{shown}",
        words=_words(read),
        at=at,
        value=value,
        unit=unit,
        quantile=read.quantile,
        load=read.load,
        over_seconds=read.over_seconds,
        part=part,
    )


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return " ".join(str(value).split())


def _value(text: str, key: _Key) -> tuple[float | None, Unit | None, str]:
    """Value in its unit, the unit, and what to write behind the text; a unit in the value goes
    before that of the key."""
    if text.lower() in ("true", "false"):
        return float(text.lower() == "true"), key.unit, ""
    found = _VALUE.fullmatch(text)
    number = number_of(found["number"]) if found else None
    if found is None or number is None:
        return None, key.unit, ""
    written = found["unit"]
    if written:
        unit = _written_unit(written)
        return (None, key.unit, "") if unit is None else (_rounded(number * unit[1]), unit[0], "")
    if key.unit is None and _SHARES & set(key.words) and _MOST_SHARE < number <= 100:
        return number / 100, Unit.RATIO, ""
    return _rounded(number * key.factor), key.unit, key.shown


def _rounded(value: float) -> float:
    """Without what a factor such as 0.001 leaves in the last digits."""
    rounded = float(f"{value:.15g}")
    return rounded if math.isfinite(rounded) else value


def _written_unit(text: str) -> tuple[Unit, float] | None:
    """Of `ms`, `GiB`, `%`, `tok/s`, `/min`."""
    what, _, time = text.lower().partition("/")
    if time:
        per = _PER.get(time)
        if per is None:
            return None
        tokens = what in _TOKENS or what == "t"
        return (Unit.TOKENS_PER_SECOND if tokens else Unit.PER_SECOND), 1 / per
    if what in _TOKENS:
        return Unit.TOKENS, 1.0
    if what in ("req", "reqs", "requests"):
        return Unit.REQUESTS, 1.0
    if what in ("min", "mins"):
        return Unit.SECONDS, 60.0
    found = _UNITS.get(what)
    return None if found is None else found[:2]


# --- keys ---------------------------------------------------------------------------------
def _split(key: str) -> list[str]:
    words = [word for word in _SPLIT.split(_CAMEL.sub("_", key).lower()) if word]
    split: list[str] = []
    for word in words:
        numbered = _NUMBERED.fullmatch(word)
        split += [numbered[1], numbered[2]] if numbered else [word]
    text = f" {' '.join(split)} ".replace("%", " percent ")
    for found, instead in _INSTEAD.items():
        text = text.replace(f" {found} ", f" {instead} ")
    return text.split()


def _read_key(key: str) -> _Key:
    words = _split(key)
    read = _Key()
    place = 0
    while place < len(words):
        place += _read_word(words, place, read)
    if read.unit is None and "tokens" in read.words:
        read.unit = Unit.TOKENS
    return read


def _read_word(words: list[str], place: int, read: _Key) -> int:
    """Reads on from `place`; how many words were taken."""
    word = words[place]
    following = words[place + 1] if place + 1 < len(words) else ""
    after = words[place + 2] if place + 2 < len(words) else ""
    if word == "per" and following in _PER:
        _make_rate(read, _PER[following], following)
        return 2
    if word.isdigit() and _span(following) and _is_span(words, place):
        read.over_seconds = float(word) * (_span(following) or 1.0)
        return 2
    if word == "at" and following.isdigit() and not _span(after):
        read.load = float(following)
        return 2
    quantile = _QUANTILE.fullmatch(word)
    if quantile:
        read.quantile = 1.0 if quantile[1] == "100" else float(f"0.{quantile[1]}")
        return 1
    if word == "min" and _TIMED & set(words):
        read.unit, read.factor, read.shown = Unit.SECONDS, 60.0, "min"
        return 1
    unit = _UNITS.get(word)
    if unit is None or (word == "s" and place == 0):
        read.words.append(word)
        return 1
    if word == "s" and (read.unit is Unit.BYTES or words[place - 1] in _COUNTED):
        _make_rate(read, 1.0, "s")
    else:
        read.unit, read.factor, read.shown = unit
    if word in ("rps", "qps"):
        read.words.append("requests")
    return 1


def _make_rate(read: _Key, seconds: float, shown: str) -> None:
    if read.unit is Unit.BYTES:
        read.unit, read.shown = Unit.BYTES_PER_SECOND, f"{read.shown}/{shown}"
        return
    tokens = bool(read.words) and read.words[-1] in _TOKENS
    read.unit = Unit.TOKENS_PER_SECOND if tokens else Unit.PER_SECOND
    read.factor = 1 / seconds
    read.shown = f"tokens/{shown}" if tokens else f"/{shown}"


def _span(word: str) -> float | None:
    if word in ("min", "mins"):
        return 60.0
    unit = _UNITS.get(word)
    return unit[1] if unit is not None and unit[0] is Unit.SECONDS else None


def _is_span(words: list[str], place: int) -> bool:
    return place > 0 and words[place - 1] in _SPANS


def _words(read: _Key) -> frozenset[str]:
    words = frozenset(read.words)
    text = f" = {' '.join(read.words)} "
    added: set[str] = set()
    for found, same in _SAME:
        if f" {found} " in text and not (same.startswith("in flight") and words & _LIMITS):
            added |= set(same.split())
    if read.unit is Unit.BYTES and "gpu" in words | added:
        added.add("memory")
    return words | added
