"""Whole metrics pages of engines over a minute, as they were recorded, and windows of them.

Those of sound ones lie side by side, and in `troubled/` those of others.

Each file in `recorded_pages/` says in its first line where it is from; then what the engine says of
itself beside its page; then the first page whole, and of each later one what changed or was added:
`@17 3.0` is a new value of line 17, from 0.
"""

import json
from functools import cache
from pathlib import Path

from controlplane.diagnosis.sources.facts import facts_of
from controlplane.diagnosis.sources.joining import join
from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.sources.scrapes import Snapshot, series_of
from controlplane.diagnosis.window import Window

FOLDER = Path(__file__).parent / "recorded_pages"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.txt")))
_SAID, _PAGE, _CHANGED = "#= said ", "#= page ", "@"


@cache
def recorded_window(name: str, start: float = 0.0, seconds: float = float("inf")) -> Window:
    """What a look at the running engine would have seen, from `start` of the recording on."""
    said, recorded = read_pages(name)
    pages = [page for page in recorded if start <= page[0] <= start + seconds]
    place = "http://127.0.0.1:8000/metrics"
    part = series_of([Snapshot(at=at, text=text, place=place) for at, text in pages])
    return join([part, Part(facts=facts_of(said, pages[0][0]))])


def read_pages(name: str) -> tuple[dict[str, object], list[tuple[float, str]]]:
    """What it said of itself, and each page with its second."""
    lines = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    said: dict[str, object] = {}
    page: list[str] = []
    pages: list[tuple[float, str]] = []
    at: float | None = None
    for line in (*lines[1:], _PAGE):
        if line.startswith(_SAID):
            said = json.loads(line.removeprefix(_SAID))
        elif line.startswith(_PAGE):
            if at is not None:
                pages.append((at, "\n".join(page) + "\n"))
            at = float(line.removeprefix(_PAGE) or 0.0)
        elif line.startswith(_CHANGED):
            number, _, value = line.removeprefix(_CHANGED).partition(" ")
            page[int(number)] = f"{page[int(number)].rpartition(' ')[0]} {value}"
        else:
            page.append(line)
    return said, pages
