"""What operators and gateways know beside the engine, in whatever words they wrote it down.

A key is split into words; units, percentiles and time spans are taken out of it; and where people
have several words for one thing, the one that rules ask for is added. The words are in
`fact_words`.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.sources.fact_words import (
    APART,
    BITS,
    CLOCKED,
    CORES,
    COUNTED,
    FLOWS,
    HELD_APART,
    INSTEAD,
    LIMITS,
    MOMENTS,
    MOST_SHARE,
    ONE,
    ORDINALS,
    PER,
    SAME,
    SHARES,
    SPANS,
    TIMED,
    TOKENS,
    UNITS,
    WHICH,
)
from controlplane.diagnosis.sources.quantity import number_of
from controlplane.diagnosis.sources.secrets import told_without_secrets
from controlplane.diagnosis.views.durations import durations_in
from dataplane.engine_metrics.signal import Unit

_MAX_KEY = 200
_MAX_TEXT = 4000
"""Characters. Nobody writes longer ones by hand, and what labels of somebody's page say is searched
with regular expressions, some of which take time with the square of it."""
_CAMEL = re.compile(
    r"(?<=[a-z0-9])(?=[A-Z][a-z])|(?<=[a-z][a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
)
_SPLIT = re.compile(r"[\s_.\-/:,()\[\]]+")
_NUMBERED = re.compile(r"(gpu|card|device|rank|node|replica|worker|dp|tp)(\d+)")
_QUANTILE = re.compile(r"p(\d{2,4})")
_ABOUT = r"(?:(?:about|around|approx\.?|approximately|roughly|ca\.|~|≈) ?)?"
_VALUE = re.compile(
    _ABOUT
    + r"(?P<number>-?\d[\d,_]*(?:\.\d+)?(?:e[+-]?\d+)?)(?P<thousands>k(?=\s|$)|(?-i:M)(?=\s|$))?"
    r"\s*(?P<unit>[a-zA-Zµ%]+(?:/[a-z]+)?|/[a-z]+)?",
    re.IGNORECASE,
)
_THOUSANDS = {"k": 1e3, "m": 1e6}
_COMPOUND = re.compile(r"(?:\d+(?:\.\d+)? ?(?:d|h|m|min|s|sec)\b ?){2,4}", re.IGNORECASE)
"""`1m 20s`, `3d 4h`."""
_OVER = re.compile(r"/ ?(s|sec|second|min|minute|h|hour)\b", re.IGNORECASE)


_RANGE = re.compile(
    _ABOUT + r"(?P<low>\d[\d,]*(?:\.\d+)?) ?(?:-|–|to|\.\.) ?(?P<high>\d[\d,]*(?:\.\d+)?)"
    r" ?(?P<unit>[a-zA-Zµ%]+(?:/[a-z]+)?)?",
    re.IGNORECASE,
)
_WIDEST_RANGE = 100.0
"""Times its lower end: what is farther apart is no reading."""


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


def facts_of(
    values: Mapping[str, object], at: float, *, is_observed: bool = False
) -> tuple[Fact, ...]:
    """One fact for each key, and one more for each part of a value that is a table or a list.
    Of very long keys and texts the beginning."""
    facts = (fact for key, value in values.items() for fact in _facts(str(key), value, at))
    return tuple(replace(fact, is_observed=True) if is_observed else fact for fact in facts)


def fact_of(key: str, value: object, at: float) -> Fact:
    """Of one key with one value."""
    key = key[:_MAX_KEY]
    return _fact(key, _read_key(key), value, at)


def _facts(key: str, value: object, at: float) -> Iterator[Fact]:
    key = key[:_MAX_KEY]
    read = _read_key(key)
    parts = _parts(value)
    if not parts:
        yield _fact(key, read, value, at)
        return
    told = ", ".join(
        f"{name} {told_without_secrets(name, _text(part))}" for name, part in parts.items()
    )
    yield _fact(key, read, told, at)
    for name, part in parts.items():
        if _parts(part):
            yield from _facts(f"{key}.{name}", part, at)
        else:
            yield _fact(f"{key}.{name[:_MAX_KEY]}", read, part, at, name[:_MAX_KEY])


def _parts(value: object) -> dict[str, object]:
    """Of a table or a list; empty for anything else."""
    if isinstance(value, Mapping):
        return {str(name): part for name, part in value.items()}
    if isinstance(value, list | tuple):
        return {str(index): part for index, part in enumerate(value)}
    return {}


def _fact(key: str, read: _Key, told: object, at: float, part: str | None = None) -> Fact:
    text = told_without_secrets(key, _text(told))
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
    return " ".join(str(value)[:_MAX_TEXT].split())


def _value(text: str, key: _Key) -> tuple[float | None, Unit | None, str]:
    """Value in its unit, the unit, and what to write behind the text; a unit in the value goes
    before that of the key."""
    if text.lower() in ("true", "false"):
        return float(text.lower() == "true"), key.unit, ""
    found = _VALUE.fullmatch(text)
    number = number_of(found["number"]) if found else None
    if found is not None and number is not None and found["thousands"]:
        number *= _THOUSANDS[found["thousands"].lower()]
    if found is None:
        if _COMPOUND.fullmatch(text):
            return sum(seconds for _, seconds in durations_in(text)), Unit.SECONDS, ""
        found, number = _middle(text)
    if found is None or number is None:
        return None, key.unit, ""
    written = found["unit"]
    if written:
        unit = _written_unit(written)
        return (None, key.unit, "") if unit is None else (_rounded(number * unit[1]), unit[0], "")
    if key.unit is None and _is_share(set(key.words)) and MOST_SHARE < number <= 100:
        return number / 100, Unit.RATIO, ""
    return _rounded(number * key.factor), key.unit, key.shown


def _is_share(words: set[str]) -> bool:
    """Busy slots and used cores are counted, a busy device is timed; requests come at a rate that
    is no share."""
    if CORES & words or ("busy" in words and HELD_APART & words):
        return False
    return bool(SHARES & words) and not ("rate" in words and FLOWS & words)


def _middle(text: str) -> tuple[re.Match[str] | None, float | None]:
    """Of `7-9`, `66 to 92`, `0.07-0.12`: what lies between the ends; nothing for anything else."""
    found = _RANGE.fullmatch(text)
    low, high = (number_of(found["low"]), number_of(found["high"])) if found else (None, None)
    if not low or not high or not low < high <= _WIDEST_RANGE * low:
        return None, None
    return found, (low + high) / 2


def _rounded(value: float) -> float:
    """Without what a factor such as 0.001 leaves in the last digits."""
    rounded = float(f"{value:.15g}")
    return rounded if math.isfinite(rounded) else value


def _written_unit(text: str) -> tuple[Unit, float] | None:
    """Of `ms`, `GiB`, `%`, `tok/s`, `/min`."""
    what, _, time = text.lower().partition("/")
    if time:
        per = PER.get(time)
        if per is None:
            return None
        tokens = what in TOKENS or what == "t"
        return (Unit.TOKENS_PER_SECOND if tokens else Unit.PER_SECOND), 1 / per
    if what in TOKENS:
        return Unit.TOKENS, 1.0
    if what in ("req", "reqs", "requests"):
        return Unit.REQUESTS, 1.0
    if what in ("min", "mins"):
        return Unit.SECONDS, 60.0
    found = UNITS.get(what)
    return None if found is None else found[:2]


# --- keys ---------------------------------------------------------------------------------
def _split(key: str) -> list[str]:
    apart = _OVER.sub(r"_per_\1", _CAMEL.sub("_", key))
    words = [word for word in _SPLIT.split(apart.lower()) if word]
    split: list[str] = []
    for word in words:
        numbered = _NUMBERED.fullmatch(word)
        split += [numbered[1], numbered[2]] if numbered else [word]
    text = f" {' '.join(split)} ".replace("%", " percent ")
    for found, instead in INSTEAD.items():
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
    return _read_several(words, place, read) or _read_one(words, place, read)


def _read_several(words: list[str], place: int, read: _Key) -> int:
    """Words that mean something together: a rate, a time or a load; 0 where there are none."""
    word = words[place]
    following = words[place + 1] if place + 1 < len(words) else ""
    after = words[place + 2] if place + 2 < len(words) else ""
    if word in BITS and (following == "s" or (following, after) == ("per", "s")):
        read.unit, (read.factor, read.shown) = Unit.BYTES_PER_SECOND, BITS[word]
        read.words.append(word)
        return 2 if following == "s" else 3
    if word == "per" and following in PER:
        _make_rate(read, PER[following], following)
        return 2
    if word.isdigit() and _span(following) and _is_span(words, place):
        read.over_seconds = float(word) * (_span(following) or 1.0)
        return 2
    if word in WHICH and following in CLOCKED:
        read.over_seconds = _span(following)
        return 2
    if word == "at" and following.isdigit() and not _span(after):
        read.load = float(following)
        return 2
    return 0


def _read_one(words: list[str], place: int, read: _Key) -> int:
    word = words[place]
    following = words[place + 1] if place + 1 < len(words) else ""
    quantile = _QUANTILE.fullmatch(word)
    if quantile:
        read.quantile = 1.0 if quantile[1] == "100" else float(f"0.{quantile[1]}")
        return 1
    if word == "min" and TIMED & set(words):
        read.unit, read.factor, read.shown = Unit.SECONDS, 60.0, "min"
        return 1
    unit = UNITS.get(word)
    if unit is None or (word == "s" and place == 0):
        read.words.append(word)
        return 1
    is_one = words[place - 1] in ONE and words[place - 2 : place - 1] in ORDINALS
    is_counted = words[place - 1] in COUNTED and not is_one and not APART & set(words[:place])
    is_rate = read.unit is Unit.BYTES or is_counted
    if word == "s" and is_rate and following not in MOMENTS:
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
    tokens = bool(read.words) and read.words[-1] in TOKENS
    read.unit = Unit.TOKENS_PER_SECOND if tokens else Unit.PER_SECOND
    read.factor = 1 / seconds
    read.shown = f"tokens/{shown}" if tokens else f"/{shown}"


def _span(word: str) -> float | None:
    if word in ("min", "mins"):
        return 60.0
    unit = UNITS.get(word)
    return unit[1] if unit is not None and unit[0] is Unit.SECONDS else None


def _is_span(words: list[str], place: int) -> bool:
    return place > 0 and words[place - 1] in SPANS


def _words(read: _Key) -> frozenset[str]:
    words = frozenset(read.words)
    text = f" = {' '.join(read.words)} "
    added: set[str] = set()
    for found, same in SAME:
        if f" {found} " in text and not (same.startswith("in flight") and words & LIMITS):
            added |= set(same.split())
    if read.unit is Unit.BYTES and "gpu" in words | added:
        added.add("memory")
    return words | added
