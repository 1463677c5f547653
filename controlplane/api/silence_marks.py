"""When silences and maintenance began and ended, as marks for charts, and the time of maintenance
as bands: no change of what runs, so none of the changes that diagnosis weighs."""

from collections.abc import Iterator
from dataclasses import dataclass

from controlplane.api.marks import Mark
from controlplane.api.silence_views import scope_words
from controlplane.slo.silences import Silence, SilenceKind
from controlplane.store.database import Database
from controlplane.store.series import SeriesSpan
from controlplane.store.silences import list_touching

KIND = "silence"


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A time that charts shade."""

    start_unix: int
    end_unix: int
    text: str


def read_silence_marks(database: Database, span: SeriesSpan, deployment: str | None) -> list[Mark]:
    """Of `deployment`, and of all; the oldest first."""
    start, end = span.start_unix * 10**9, span.end_unix * 10**9
    with database.reading() as session:
        found = list_touching(session, start, end)
    marks = [
        mark
        for each in found
        if deployment is None or each.scope.deployment in (None, deployment)
        for mark in _of(each, start, end)
    ]
    return sorted(marks, key=lambda mark: mark.at_unix_ns)


def read_bands(database: Database, span: SeriesSpan, deployment: str | None) -> list[Band]:
    """Planned maintenance of `deployment`, and of all; the oldest first."""
    start, end = span.start_unix * 10**9, span.end_unix * 10**9
    with database.reading() as session:
        found = list_touching(session, start, end, SilenceKind.MAINTENANCE)
    return [
        Band(
            start_unix=max(each.from_unix_ns, start) // 10**9,
            end_unix=min(each.over_at_unix_ns, end) // 10**9,
            text=f"maintenance of {scope_words(each.scope)}: {each.reason}",
        )
        for each in reversed(found)
        if deployment is None or each.scope.deployment in (None, deployment)
    ]


def _of(silence: Silence, start: int, end: int) -> Iterator[Mark]:
    """Its beginning and its end, where they lie within."""
    what = f"{silence.kind.value} of {scope_words(silence.scope)}"
    if silence.ended_by is None:
        over = f"{what} is over at its time"
    else:
        over = f"{what}, ended by {silence.ended_by}: {silence.end_reason}"
    for at, text in (
        (silence.from_unix_ns, f"{what}, by {silence.created_by}: {silence.reason}"),
        (silence.over_at_unix_ns, over),
    ):
        if start <= at < end:
            deployment = silence.scope.deployment or ""
            yield Mark(at_unix_ns=at, kind=KIND, deployment=deployment, text=text)
