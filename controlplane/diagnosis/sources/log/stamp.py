"""The time at the head of a log line, in the many ways that people's logs have it.

Engines, Python's logging, glog, journald, the kernel, Docker and Kubernetes each have their own.
Where a container runtime put its stamp before the engine's, the first one counts: it is there on
every line, also on those of a traceback.
"""

import functools
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum


class Clock(StrEnum):
    """What a stamp counts from. Stamps of the calendar can be compared with each other."""

    DATED = "dated"
    """Unix seconds; a stamp without a zone is taken for UTC."""
    YEARLESS = "yearless"
    """Seconds since the year 1972 began, a leap year: the line does not say which year."""
    TIME_OF_DAY = "time_of_day"
    """Seconds since midnight."""
    UPTIME = "uptime"
    """Since the machine started: the kernel."""
    PROCESS = "process"
    """Since the process started: llama.cpp."""


CALENDAR = frozenset({Clock.DATED, Clock.YEARLESS, Clock.TIME_OF_DAY})


@dataclass(frozen=True, slots=True)
class Stamp:
    """One stamp as it stands."""

    clock: Clock
    seconds: float


_HEAD = 140
"""Stamps further into a line belong to its message."""
_TIME = r"(?P<h{0}>[01]\d|2[0-3]):(?P<m{0}>[0-5]\d):(?P<s{0}>[0-5]\d|60)(?P<f{0}>[.,]\d{{1,9}})?"
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_STAMP = re.compile(
    "|".join(
        (
            r"(?P<iso>\b(?P<y1>(?:19|20)\d\d)[-/](?P<mo1>\d\d)[-/](?P<d1>\d\d)[T _]"
            + _TIME.format(1)
            + r" ?(?P<z1>Z|[+-]\d\d:?\d\d)?)",
            r"(?P<american>\b(?P<mo2>\d\d)/(?P<d2>\d\d)/(?P<y2>20\d\d)[- ]" + _TIME.format(2) + ")",
            r"(?P<access>\b(?P<d3>\d\d)/(?P<n3>"
            + "|".join(_MONTHS)
            + r")/(?P<y3>20\d\d):"
            + _TIME.format(3)
            + r"(?: (?P<z3>[+-]\d{4}))?)",
            r"(?P<yearless>(?<![\d-])(?P<mo4>\d\d)-(?P<d4>\d\d) " + _TIME.format(4) + ")",
            r"(?P<glog>(?<![A-Za-z])[IWEF](?P<mo5>\d?\d)(?P<d5>\d\d) " + _TIME.format(5) + ")",
            r"(?P<syslog>\b(?P<n6>"
            + "|".join(_MONTHS)
            + r") +(?P<d6>\d?\d) "
            + _TIME.format(6)
            + r"(?: (?P<y6>20\d\d)\b)?)",
            r"(?P<uptime>(?:^|kernel: |>)\[ *(?P<u7>\d+\.\d{3,9})\])",
            r"(?P<epoch>(?:^\[|\btimestamp=|\bts=)(?P<e0>1\d{9})(?P<e1>\.\d+)?\b)",
            r"(?P<process>(?:^|: |\] )"
            r"(?P<pm>\d+)\.(?P<ps>[0-5]\d)\.(?P<pms>\d{3})\.(?P<pus>\d{3}) )",
            r"(?P<daytime>^\W{0,2}" + _TIME.format(9) + r"\b)",
        )
    )
)


_NUMBERS = (
    *((r"[01]\d|2[0-3]", r"\d\d"), (r"[0-5]\d|60", r"\d\d"), (r"[0-5]\d", r"\d\d")),
    *((r"(?:19|20)\d\d", r"\d{4}"), (r"20\d\d", r"\d{4}"), (r"1\d{9}", r"\d{10}")),
)
"""What a stamp asks of its digits, and what it asks when any will do."""
LOOSE_STAMP = re.compile(
    functools.reduce(lambda pattern, pair: pattern.replace(*pair), _NUMBERS, _STAMP.pattern)
)
"""Finds all that stamps may be in lines that differ from this one in digits alone."""
NOWHERE = (-1, -1)

_MAY_HOLD_TIME = re.compile(r"\d:[0-5]\d:\d")
_MAY_HOLD_SECONDS = re.compile(r"^\[ *\d|^\d+\.\d|: \[ *\d|[:\]] \d+\.\d\d\.|>\[|timestamp=|\bts=")


def find_stamp(line: str) -> Stamp | None:
    """The first stamp at the head of `line`; None where there is none, or it is no date."""
    if (
        _MAY_HOLD_TIME.search(line, 0, _HEAD) is None
        and _MAY_HOLD_SECONDS.search(line, 0, _HEAD) is None
    ):
        return None
    return _read(_STAMP.search(line, 0, _HEAD))


def place_of_stamp(line: str) -> tuple[int, int] | None:
    """From where to where the first stamp is at the head of every line that differs from `line` in
    digits alone, and has one there: NOWHERE where none has any. None where the digits decide."""
    loose = LOOSE_STAMP.search(line, 0, _HEAD)
    if loose is None:
        return NOWHERE
    found = _STAMP.search(line, 0, _HEAD)
    if found is None or (found.start(), found.lastgroup) != (loose.start(), loose.lastgroup):
        return None
    return loose.span()


def stamp_at(line: str, place: tuple[int, int] | None) -> Stamp | None:
    """As `find_stamp` finds it, where `place` is known of such a line."""
    if place == NOWHERE:
        return None
    if place is None:
        return find_stamp(line)
    start, stop = place
    before = 1 if start else 0  # one more at both ends says where a word begins and ends
    text = line[start - before : min(stop + 1, _HEAD)]
    return _stamp_in(text, before) or find_stamp(line)


@functools.lru_cache(maxsize=1024)
def _stamp_in(text: str, place: int) -> Stamp | None:
    """At its `place`; many lines in a row have the same."""
    return _read(_STAMP.match(text, place))


def _read(found: re.Match[str] | None) -> Stamp | None:
    """None for what is no date, too."""
    if found is None:
        return None
    try:
        return _READ[found.lastgroup or ""](found)
    except (ValueError, OverflowError):
        return None


def epoch_stamp(value: float) -> Stamp | None:
    """Of a number in a JSON line: Unix time in seconds, milliseconds, micro- or nanoseconds."""
    for scale in (1.0, 1e3, 1e6, 1e9):
        if 1e9 <= value / scale < 4e9:
            return Stamp(Clock.DATED, value / scale)
    return None


@functools.lru_cache(maxsize=512)
def _day(year: int, month: int, day: int) -> float:
    return datetime(year, month, day, tzinfo=UTC).timestamp()


LEAP_YEAR = 1972


_OF_DAY = {number: tuple(f"{name}{number}" for name in "hmsf") for number in (1, 2, 3, 4, 5, 6, 9)}


def _of_day(found: re.Match[str], group: int) -> float:
    hours, minutes, seconds, fraction = found.group(*_OF_DAY[group])
    return (
        int(hours) * 3600
        + int(minutes) * 60
        + int(seconds)
        + (float("0." + fraction[1:]) if fraction else 0.0)
    )


def _zone(text: str | None) -> float:
    if not text or text == "Z":
        return 0.0
    seconds = int(text[1:3]) * 3600 + int(text[-2:]) * 60
    return -seconds if text[0] == "-" else seconds


def _iso(found: re.Match[str]) -> Stamp:
    day = _day(int(found["y1"]), int(found["mo1"]), int(found["d1"]))
    return Stamp(Clock.DATED, day + _of_day(found, 1) - _zone(found["z1"]))


def _american(found: re.Match[str]) -> Stamp:
    day = _day(int(found["y2"]), int(found["mo2"]), int(found["d2"]))
    return Stamp(Clock.DATED, day + _of_day(found, 2))


def _access(found: re.Match[str]) -> Stamp:
    day = _day(int(found["y3"]), _MONTHS.index(found["n3"]) + 1, int(found["d3"]))
    return Stamp(Clock.DATED, day + _of_day(found, 3) - _zone(found["z3"]))


def _yearless(found: re.Match[str]) -> Stamp:
    day = _since_new_year(int(found["mo4"]), int(found["d4"]))
    return Stamp(Clock.YEARLESS, day + _of_day(found, 4))


def _glog(found: re.Match[str]) -> Stamp:
    day = _since_new_year(int(found["mo5"]), int(found["d5"]))
    return Stamp(Clock.YEARLESS, day + _of_day(found, 5))


def _syslog(found: re.Match[str]) -> Stamp:
    month, day = _MONTHS.index(found["n6"]) + 1, int(found["d6"])
    if found["y6"]:
        return Stamp(Clock.DATED, _day(int(found["y6"]), month, day) + _of_day(found, 6))
    return Stamp(Clock.YEARLESS, _since_new_year(month, day) + _of_day(found, 6))


@functools.lru_cache(maxsize=512)
def _since_new_year(month: int, day: int) -> float:
    return _day(LEAP_YEAR, month, day) - _day(LEAP_YEAR, 1, 1)


def _uptime(found: re.Match[str]) -> Stamp:
    return Stamp(Clock.UPTIME, float(found["u7"]))


def _process(found: re.Match[str]) -> Stamp:
    micros = int(found["pms"]) * 1000 + int(found["pus"])
    return Stamp(Clock.PROCESS, int(found["pm"]) * 60 + int(found["ps"]) + micros / 1e6)


def _epoch(found: re.Match[str]) -> Stamp:
    return Stamp(Clock.DATED, float(found["e0"]) + float(found["e1"] or 0))


def _daytime(found: re.Match[str]) -> Stamp:
    return Stamp(Clock.TIME_OF_DAY, _of_day(found, 9))


_READ = {
    "iso": _iso,
    "american": _american,
    "access": _access,
    "yearless": _yearless,
    "glog": _glog,
    "syslog": _syslog,
    "uptime": _uptime,
    "epoch": _epoch,
    "process": _process,
    "daytime": _daytime,
}
