"""When saved metrics pages were scraped.

What a page says goes first: a comment such as `# scraped at 2026-11-30T08:00:00Z`, or timestamps
behind its samples. Then the time in a file's name, then that of the file. Where nothing tells,
pages follow each other at the interval at which most are scraped, and that is a doubt.
"""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.diagnosis.sources.log.stamp import Clock, epoch_stamp, find_stamp
from controlplane.diagnosis.window import Doubt, DoubtKind

USUAL_INTERVAL_SECONDS = 15.0
"""Of Prometheus' own example configuration."""

_LEAST_APART_SECONDS = 0.9
"""Engines are scraped every second at most."""

_MARK = re.compile(
    r"^# *(?:scraped?|saved|taken|time|timestamp|date|at)\b(?: at)?[ :=]*(.+)$", re.I
)
_TIMESTAMPED = re.compile(r"^[a-zA-Z_:][\w:]*(?:\{.*\})? \S+ (\d{10}(?:\.\d+)?|\d{13})\s*$")
_EPOCH = re.compile(r"(?<!\d)(1\d{9}(?:\.\d+)?|1\d{12})(?!\d)")
_NAMED = re.compile(
    r"(?<!\d)(20\d\d)-?(\d\d)-?(\d\d)[T_ -]?(\d\d)[:hH_-]?(\d\d)[:mM_-]?(\d\d)(?!\d)"
)
_LINES_LOOKED_AT = 50


@dataclass(frozen=True, slots=True)
class SavedPage:
    """One page of one file."""

    text: str
    place: str
    modified: float
    """Unix time of the file."""
    is_last_of_file: bool
    folder: str = ""
    is_named: bool = True
    """Somebody named the file; False: it lies in a folder that was named."""


def times_of(pages: Sequence[SavedPage]) -> tuple[list[float], list[Doubt]]:
    """Unix time of each page, in the order given."""
    told = [told_time(page) for page in pages]
    files = [page.modified for page in pages if page.is_last_of_file]
    files_differ = _are_apart(files)
    times: list[float] = []
    guessed: list[str] = []
    for page, at in zip(reversed(pages), reversed(told), strict=True):
        if at is None and page.is_last_of_file and (files_differ or len(pages) == 1):
            at = page.modified
        elif at is None:
            at = times[-1] - USUAL_INTERVAL_SECONDS if times else page.modified
            guessed.append(page.place)
        times.append(at)
    times.reverse()
    return times, _doubts(guessed)


def _are_apart(files: Sequence[float]) -> bool:
    """Whether the files were written when their pages were scraped: what copies, unpacks or checks
    them out leaves less than a second between them."""
    times = sorted(files)
    return all(
        after - before >= _LEAST_APART_SECONDS for before, after in itertools.pairwise(times)
    )


def _doubts(guessed: Sequence[str]) -> list[Doubt]:
    if not guessed:
        return []
    return [
        Doubt(
            kind=DoubtKind.TIME_GUESSED,
            name=guessed[-1],
            what=f"the times of {len(guessed)} pages are not known and taken to be "
            f"{USUAL_INTERVAL_SECONDS:g} s apart, so rates may be off by any factor; write "
            "`# scraped at <time>` before each",
        )
    ]


def told_time(page: SavedPage) -> float | None:
    """What the page, or the name of its file, says; None: only the file's own time is known."""
    for line in page.text.split("\n", _LINES_LOOKED_AT)[:_LINES_LOOKED_AT]:
        mark = _MARK.match(line)
        at = _time(mark[1]) if mark else None
        stamped = _TIMESTAMPED.match(line) if at is None else None
        if stamped is not None:
            at = _time(stamped[1])
        if at is not None:
            return at
    return _time_of_name(page.place) if page.is_last_of_file else None


def _time(text: str) -> float | None:
    stamp = find_stamp(text)
    if stamp is not None and stamp.clock is Clock.DATED:
        return stamp.seconds
    epoch = _EPOCH.search(text)
    found = epoch_stamp(float(epoch[1])) if epoch else None
    return None if found is None else found.seconds


def _time_of_name(place: str) -> float | None:
    name = place.rpartition("/")[2]
    found = _NAMED.search(name)
    if found is not None:
        year, month, day, hour, minute, second = found.groups()
        stamp = find_stamp(f"{year}-{month}-{day} {hour}:{minute}:{second}")
        if stamp is not None:
            return stamp.seconds
    epoch = _EPOCH.search(name)
    at = epoch_stamp(float(epoch[1])) if epoch else None
    return None if at is None else at.seconds
