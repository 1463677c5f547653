"""Saved metrics pages, logs, our records, cases and what else we write, into one window.

What each file is, is seen in it. Times are Unix times wherever something tells them: stamps in a
log, marks in or at a page, the files' own. A log whose lines have no date ends when its file was
last written.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from controlplane.diagnosis.sources.bounds import NEWEST_OF_LOG
from controlplane.diagnosis.sources.case import CaseError, read_case
from controlplane.diagnosis.sources.case_bounds import MOST_CHARACTERS
from controlplane.diagnosis.sources.chunks import Told, nobody_told
from controlplane.diagnosis.sources.copied_pages import beside_logs
from controlplane.diagnosis.sources.endpoint import engines_of
from controlplane.diagnosis.sources.folder import is_file
from controlplane.diagnosis.sources.input_error import InputError
from controlplane.diagnosis.sources.joining import join
from controlplane.diagnosis.sources.log import LogReader
from controlplane.diagnosis.sources.log.stamp import CALENDAR, Clock, find_stamp
from controlplane.diagnosis.sources.opening import OpenedText, open_inputs
from controlplane.diagnosis.sources.owners import Owners
from controlplane.diagnosis.sources.page_lines import bounded, refuse_long
from controlplane.diagnosis.sources.page_times import SavedPage, times_of
from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.sources.scrapes import Snapshot, series_of
from controlplane.diagnosis.sources.simulated import EVENTS, GATEWAYS, SCRAPES, read_simulated
from controlplane.diagnosis.sources.taken import Taken, beside_engines
from controlplane.diagnosis.sources.text_kind import TextKind, is_exposition, kind_of
from controlplane.diagnosis.window import Doubt, DoubtKind, Window
from dataplane.engine_metrics.exposition import NotMetricsError, split_scrapes

__all__ = ["InputError", "read_inputs"]


def read_inputs(
    names: Sequence[str],
    stdin: BinaryIO | None = None,
    told: Told = nobody_told,
    deployment: str | None = None,
) -> Window:
    """One window of all files, folders and, for `-`, standard input; `told` hears how far each is
    read. `deployment`: of records, those of which; None: they are of one. Raises InputError."""
    taken = Taken(deployment)
    if len(names) == 1 and _is_simulated(Path(names[0])):
        taken.refuse_choice(names)
        return _simulated(Path(names[0]))
    refused: list[InputError] = []
    for opened in open_inputs(names, stdin or sys.stdin.buffer, told):
        if isinstance(opened, InputError):
            refused.append(opened)
            continue
        try:
            kind = _kind_of(opened)
            if kind is TextKind.CASE and len(names) == 1 and opened.folder is None:
                taken.refuse_choice(names)
                return _case(opened)
            _take(opened, kind, taken)
        except InputError as error:
            if opened.folder is None:
                raise
            refused.append(error)
    if refused and taken.is_empty:
        raise _to_tell(refused)
    taken.refuse_choice(names)
    return _joined(taken, refused)


def _joined(taken: Taken, refused: list[InputError]) -> Window:
    """All on one clock."""
    records = taken.records()
    pages, doubts = beside_logs(taken.pages, [*taken.parts, *records])
    others = [*_metrics(pages, refused, taken.owners), *taken.parts]
    taken.owners.refuse_strangers()
    passed_over = tuple(map(_passed_over, refused))
    return join(
        [
            *others,
            *beside_engines(records, others),
            Part(doubts=(*taken.owners.doubts(), *doubts, *passed_over)),
        ]
    )


def _kind_of(opened: OpenedText) -> TextKind:
    """Raises InputError for what nothing can be made of."""
    if opened.folder is not None and opened.place.endswith(_FOR_PEOPLE):
        raise InputError(opened.place, "is written for people", "name it if it is a log")
    return kind_of(opened.head, opened.place)


_FOR_PEOPLE = (".md", ".rst")
"""What explains a folder lies in it, with examples of what else does."""


def _to_tell(refused: Sequence[InputError]) -> InputError:
    """Of files that were all refused."""
    return next((each for each in refused if isinstance(each, _CaseAmongOthersError)), refused[0])


class _CaseAmongOthersError(InputError):
    """Of files that nothing else could be made of, the one to tell about."""


def _take(opened: OpenedText, kind: TextKind, taken: Taken) -> None:
    """Adds what `opened` holds."""
    match kind:
        case TextKind.METRICS:
            taken.take_pages(_pages_of(opened))
        case TextKind.LOG:
            opened.keep_newest(NEWEST_OF_LOG)
            taken.parts += _log(opened, opened.lines(), taken.owners)
        case TextKind.MIXED:
            opened.keep_newest(NEWEST_OF_LOG)
            metrics: list[str] = []
            lines = opened.ended_lines(lambda line: is_exposition(line) and _needs_end(line))
            taken.parts += _log(opened, _unmixed(lines, metrics), taken.owners)
            taken.take_pages(_pages(opened, metrics))
        case TextKind.RECORDS:
            taken.take_records(opened)
        case TextKind.CASE:
            raise _CaseAmongOthersError(
                opened.place, "is a case, and a case is whole", "name it alone"
            )
        case TextKind.OWN_LINES:
            raise InputError(
                opened.place,
                "is one of the files that `pilothouse simulate --metrics` writes",
                "name the folder that they are in, alone",
            )
    if opened.shortcomings:
        taken.parts.append(Part(doubts=tuple(_shortcomings(opened))))


def _passed_over(error: InputError) -> Doubt:
    return Doubt(kind=DoubtKind.UNREADABLE, name=error.place, what=f"passed over: it {error.what}")


def _shortcomings(opened: OpenedText) -> Iterator[Doubt]:
    for what in opened.shortcomings:
        yield Doubt(kind=DoubtKind.UNREADABLE, name=opened.place, what=what)


# --- what stands alone --------------------------------------------------------------------
def _is_simulated(path: Path) -> bool:
    return all(is_file(path / name) for name in (SCRAPES, EVENTS, GATEWAYS))


def _simulated(folder: Path) -> Window:
    try:
        return read_simulated(folder)
    except (OSError, ValueError) as error:
        raise InputError(str(folder), f"cannot be read: {error}", "simulate it again") from error


def _case(opened: OpenedText) -> Window:
    try:
        return read_case(opened.text(MOST_CHARACTERS), opened.place).window
    except CaseError as error:
        raise InputError(error.place, f"cannot be read: {error.what}", error.remedy) from error


# --- metrics ------------------------------------------------------------------------------
def _pages_of(opened: OpenedText) -> list[SavedPage]:
    """Those of a file that holds nothing else."""
    pages = _pages(opened, opened.ended_lines(_needs_end))
    if not any(page.text.strip() for page in pages):
        raise InputError(
            opened.place,
            "holds one line of a metrics page, and that has no end",
            "save again what the engine's own /metrics says, whole",
        )
    return pages


def _needs_end(line: str) -> bool:
    return line.strip() not in ("", _END_OF_PAGE)


_END_OF_PAGE = "# EOF"
"""Behind it nothing can be missing."""


def _pages(opened: OpenedText, lines: Iterable[str]) -> list[SavedPage]:
    kept = (line.removesuffix("\r") for line in bounded(lines, opened.place))
    texts = list(split_scrapes("\n".join([*kept, ""])))
    for text in texts:
        refuse_long(text, opened.place)
    return [
        SavedPage(
            page,
            opened.place,
            opened.modified,
            number == len(texts),
            opened.folder or "",
            opened.folder is None,
        )
        for number, page in enumerate(texts, 1)
    ]


def _metrics(
    pages: Sequence[SavedPage], refused: list[InputError], owners: Owners
) -> Iterator[Part]:
    """What looked like a page and is none was named by somebody, or lay in a folder by chance."""
    while pages:
        try:
            parts = _parts(pages, owners)
        except NotMetricsError as error:
            refusal = InputError(error.place, f"is {error.what}", error.remedy)
            kept = [page for page in pages if page.place != error.place]
            strange = [page for page in pages if page.place == error.place]
            if not strange or any(page.is_named for page in strange):
                raise refusal from error
            refused.append(refusal)
            pages = kept
        else:
            yield from parts
            return


def _parts(pages: Sequence[SavedPage], owners: Owners) -> list[Part]:
    """Of each process by itself: the pages of two are not one counter after another."""
    by_process: dict[str, list[SavedPage]] = {}
    for page in pages:
        by_process.setdefault(_process_of(page), []).append(page)
    return [
        part
        for name, own in by_process.items()
        for part in _of_process(name, own, len(by_process), owners)
    ]


def _of_process(
    name: str, pages: Sequence[SavedPage], num_processes: int, owners: Owners
) -> tuple[Part, Part]:
    """What they tell, and what is to be doubted of their times."""
    times, doubts = times_of(pages)
    folders = {page.folder for page in pages}
    snapshots = [
        Snapshot(
            at=at,
            text=page.text,
            place=page.place,
            labels=_labels(page, name, len(folders), num_processes),
        )
        for page, at in zip(pages, times, strict=True)
    ]
    part = series_of(snapshots)
    for engine in engines_of(part.exported_names):
        for page in pages:
            owners.take(engine, page.place)
    return part, Part(doubts=tuple(doubts))


def _labels(page: SavedPage, process: str, num_folders: int, num_processes: int) -> dict[str, str]:
    if num_folders > 1:
        return {"replica": page.folder}
    return {"replica": process} if num_processes > 1 and process else {}


_REPLICA_ID = re.compile(r'^pilothouse_replica_info\{.*?\breplica_id="([^"]*)"', re.M)
_ROLE = re.compile(r'^[a-z]+:\w+\{[^}]*?\bengine_type="(prefill|decode)"', re.M)
_PREFIX = re.compile(r"^([a-z]+:|pilothouse_(?:gateway|replica|controlplane)_|tgi_|trtllm_)", re.M)


def _process_of(page: SavedPage) -> str:
    """What tells it from others: the replica that it says it is, or whose words it has, and which
    half of the work it does."""
    said = _REPLICA_ID.search(page.text)
    if said is not None:
        return said[1]
    whose = "+".join(sorted({found.strip("_:") for found in _PREFIX.findall(page.text)}))
    role = _ROLE.search(page.text)
    return whose if role is None else f"{whose} {role[1]}"


# --- logs ---------------------------------------------------------------------------------
def _log(opened: OpenedText, lines: Iterable[str], owners: Owners) -> tuple[Part, ...]:
    """What it says, and a doubt where that is nothing."""
    reader = LogReader(opened.place, _first_year(opened))
    reader.read(lines)
    if reader.knows_year:
        part = reader.finish(zero=0.0)
    else:
        part = reader.finish(first_at=opened.modified - reader.length())
    if reader.sure_engine is not None:
        owners.take(reader.sure_engine, opened.place)
    elif part.engine is not None:
        owners.note(part.engine.name, opened.place)
    if part.series or part.events:
        return (part,)
    nothing = Doubt(
        kind=DoubtKind.UNREADABLE,
        name=opened.place,
        what=f"none of its {part.num_lines} lines is one that an engine, a kernel or a server is "
        "known to write",
    )
    return part, Part(doubts=(nothing,))


def _first_year(opened: OpenedText) -> int | None:
    """Of a log whose stamps have none: the last year in which its first line was not yet to come
    when the file was written."""
    for line in opened.head.split("\n"):
        stamp = find_stamp(line)
        if stamp is None or stamp.clock not in CALENDAR:
            continue
        if stamp.clock is not Clock.YEARLESS:
            return None
        written = datetime.fromtimestamp(opened.modified, UTC)
        since_new_year = (
            written - written.replace(month=1, day=1, hour=0, minute=0, second=0, microsecond=0)
        ).total_seconds()
        is_later_in_year = stamp.seconds > since_new_year + _SKEW_SECONDS
        return written.year - 1 if is_later_in_year else written.year
    return None


_SKEW_SECONDS = 2 * 86400.0
"""Leap day and time zones."""


def _unmixed(lines: Iterable[str], metrics: list[str]) -> Iterator[str]:
    """Those of the log; those of metrics pages are put into `metrics`, in order too."""
    for line in lines:
        if is_exposition(line) or line.startswith("# "):
            metrics.append(line)
        else:
            yield line
