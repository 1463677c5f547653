"""Saved pages that only their files date, beside logs of another day: the files were copied.

A log tells its own time, the file of a page that of its last copy. A page that was saved with the
log is taken to be of its end, and that is a doubt.
"""

from collections.abc import Sequence
from dataclasses import replace

from controlplane.diagnosis.sources.page_times import SavedPage, told_time
from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.window import Doubt, DoubtKind

_BEYOND_ZONES_SECONDS = 86400.0
"""Logs write the time of any zone, most without saying which."""
_UNIX_SECONDS = 1e8
"""A smaller time is of a clock of the log's own."""


def beside_logs(
    pages: Sequence[SavedPage], logs: Sequence[Part]
) -> tuple[list[SavedPage], tuple[Doubt, ...]]:
    """`pages`, those moved to the end of the logs that cannot be of the time of their files."""
    spans = [
        (log.start, log.end)
        for log in logs
        if log.start is not None and log.end is not None and log.start > _UNIX_SECONDS
    ]
    dated = {page.place for page in pages if told_time(page) is not None}
    undated = [page for page in pages if page.place not in dated]
    if not spans or not undated:
        return list(pages), ()
    first, last = min(start for start, _ in spans), max(end for _, end in spans)
    newest = max(page.modified for page in undated)
    if first - _BEYOND_ZONES_SECONDS <= newest <= last + _BEYOND_ZONES_SECONDS:
        return list(pages), ()
    moved = [
        replace(page, modified=page.modified + last - newest) if page in undated else page
        for page in pages
    ]
    days = abs(newest - last) / 86400.0
    doubt = Doubt(
        kind=DoubtKind.TIME_GUESSED,
        name=undated[-1].place,
        what=f"nothing in it says when it was scraped, and its file was written {days:.0f} days "
        f"{'after' if newest > last else 'before'} the log ends: it is taken to be of the log's "
        "end; write `# scraped at <time>` before it",
        at=last,
    )
    return moved, (doubt,)
