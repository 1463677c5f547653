"""Doubts about times that a page gives its samples itself: fetched anew, it may still be old."""

from collections.abc import Iterable, Mapping, Sequence

from controlplane.diagnosis.sources.trust.presence import At
from controlplane.diagnosis.window import Doubt, DoubtKind

_PAGES = 3
_SECONDS = 10.0
"""Between the pages: whoever pushes samples does it more often."""
_SHOWN = 3


def doubts_of(told: Mapping[str, Sequence[At]]) -> Iterable[Doubt]:
    """By name: series whose own time does not move while they are fetched again and again."""
    stuck = {name: stamp for name, pages in told.items() if (stamp := _stuck(pages)) is not None}
    if not stuck:
        return
    names = sorted(stuck)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    yield Doubt(
        kind=DoubtKind.STUCK,
        name=names[0],
        what=f"{', '.join(names[:_SHOWN])}{more}: the page gives them one time, "
        f"{stuck[names[0]]:.0f}, again and again, so they are of that time",
        at=told[names[0]][0].at,
    )


def _stuck(pages: Sequence[At]) -> float | None:
    stamps = {each.gathered.timestamp for each in pages}
    if len(pages) < _PAGES or pages[-1].at - pages[0].at < _SECONDS or len(stamps) != 1:
        return None
    return stamps.pop()
