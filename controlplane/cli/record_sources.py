"""Full records of requests, from files or from a running control plane."""

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import click
import msgspec

from controlplane.api.paging import MAX_LIMIT
from controlplane.api.request_query import QueryError, parse_window
from controlplane.cli.answers import ReplicasAnswer
from controlplane.cli.client import convert_answer, get_json
from controlplane.cli.exit_codes import ExitCode
from controlplane.cli.progress import progress_bar
from dataplane.engine import ReplicaStatus
from dataplane.record import RequestRecord, decode_record

_PATTERNS = ("*.records", "*.jsonl")


class RecordSourceError(click.ClickException):
    """What was named holds no records that can be read."""

    exit_code = ExitCode.USAGE


def read_record_files(
    names: Iterable[str], since: str | None, until: str | None
) -> list[RequestRecord]:
    """Of all files, in that time. Raises RecordSourceError and UsageError."""
    first, last = _window(since, until)
    return [
        record
        for name in names
        for place, line in _lines(name)
        if _is_within(record := _decode(place, line), first, last)
    ]


def ask_control_plane(
    url: str, deployment: str | None, since: str | None, until: str | None
) -> tuple[list[RequestRecord], list[Mapping[str, float]]]:
    """The records that the control plane at `url` kept, and the starts of replicas by stage.

    Records are of every deployment: those of others tell that none of ours is missing between
    them. Starts are of `deployment`. Raises a CallError, which ends the command.
    """
    given = {"since": since, "until": until}
    wanted = {name: value for name, value in given.items() if value is not None}
    records = _kept_records(url, wanted)
    answer = convert_answer(url, get_json(url, "/api/v1/replicas"), ReplicasAnswer)
    starts: list[Mapping[str, float]] = [
        replica.start_stages
        for replica in answer.replicas
        if replica.start_stages and deployment in (None, replica.deployment)
    ]
    return records, starts


def read_starts(paths: Iterable[Path]) -> list[Mapping[str, float]]:
    """Seconds by stage, of each status file. Raises RecordSourceError."""
    starts: list[Mapping[str, float]] = []
    for path in paths:
        try:
            status = msgspec.json.decode(_read(path), type=ReplicaStatus)
        except msgspec.DecodeError as error:
            raise RecordSourceError(
                f"{path} is no replica's status file: {error}; a replica keeps it at the path "
                f"that it was started with as --status"
            ) from error
        starts.append(status.stages)
    return starts


def _kept_records(url: str, wanted: Mapping[str, str]) -> list[RequestRecord]:
    """All that match, the newest first, a page at a time."""
    from controlplane.api.request_views import RecordPage

    parameters = dict(wanted)
    records: list[RequestRecord] = []
    with progress_bar() as bar:
        while True:
            bar.advance(f"reading records {len(records):,}")
            answer = get_json(url, "/api/v1/records", limit=MAX_LIMIT, **parameters)
            page = convert_answer(url, answer, RecordPage)
            records += (convert_answer(url, each, RequestRecord) for each in page.records)
            if page.next is None:
                return records
            parameters["after"] = page.next


def _lines(name: str) -> Iterator[tuple[str, bytes]]:
    """(place, line) of all lines that hold something."""
    if name == "-":
        yield from _numbered("<stdin>", sys.stdin.buffer.read())
        return
    path = Path(name)
    if not path.is_dir():
        yield from _numbered(name, _read(path))
        return
    found = sorted(file for pattern in _PATTERNS for file in path.rglob(pattern))
    if not found:
        raise RecordSourceError(
            f"there are no {' or '.join(_PATTERNS)} files under {path}; name a file of records "
            f"as JSON lines, or a gateway's state directory"
        )
    for file in found:
        yield from _numbered(str(file), _read(file))


def _numbered(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            yield f"{name}:{number}", line


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RecordSourceError(f"cannot read {path}: {error.strerror}") from error


def _decode(place: str, line: bytes) -> RequestRecord:
    try:
        return decode_record(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordSourceError(
            f"{place}: this is no full record of a request: {error}. Each line must be one, as a "
            f"gateway's spool holds them or as `record` in `pilothouse trace ID -o json`"
        ) from error


def _is_within(record: RequestRecord, first: int | None, last: int | None) -> bool:
    at = record.arrived_at_unix_ns
    return (first is None or at >= first) and (last is None or at < last)


def _window(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    try:
        return parse_window(since, until, time.time_ns())
    except QueryError as error:
        raise click.UsageError(f"--{error}") from error
