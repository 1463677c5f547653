"""What a simulated fleet lets be seen from outside: its replicas' metrics and logs, and what its
gateways count. Of the fault itself there is nothing in it."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from controlplane.diagnosis.reading import Origin, Reading, Series, SourceKind
from controlplane.diagnosis.sources.failed_scrapes import FailedScrape, told_of_failures
from controlplane.diagnosis.sources.joining import join
from controlplane.diagnosis.sources.log import LogReader
from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.sources.plain_number import plain_number
from controlplane.diagnosis.sources.scrapes import Snapshot, series_of
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal
from dataplane.simulation.observer.lines import Counted, Logged, Scraped, Seen

SCRAPES, EVENTS, GATEWAYS = "metrics.jsonl", "events.jsonl", "gateways.jsonl"
"""As `pilothouse simulate --metrics` names them."""

_COUNTED = {
    "in_flight": Signal.GATEWAY_IN_FLIGHT,
    "undelivered": Signal.GATEWAY_UNDELIVERED,
    "queued": Signal.GATEWAY_QUEUED,
    "to_decode": Signal.DECODE_QUEUE,
    "arrived": Signal.GATEWAY_ARRIVED,
    "rejected": Signal.GATEWAY_REJECTED,
    "finished": Signal.GATEWAY_ENDED,
    "leaked": Signal.LEAKED,
}
"""By what a gateway calls it. `invalid` and `admitted` follow from the others."""


def read_simulated(folder: Path) -> Window:
    """Everything of the folder that `pilothouse simulate --metrics` wrote. Raises OSError, and
    ValueError with the place for a line that is none of its."""
    seen: list[Seen] = []
    for name in (SCRAPES, EVENTS, GATEWAYS):
        seen += _read(folder / name)
    return window_of(seen)


def window_of(seen: Sequence[Seen]) -> Window:
    """Of what was seen, in seconds since the fleet began."""
    scraped = [each for each in seen if isinstance(each, Scraped)]
    counted = [each for each in seen if isinstance(each, Counted)]
    logged = [each for each in seen if isinstance(each, Logged)]
    return join([*_scrapes(scraped), _counts(counted), *_logs(logged)])


def _scrapes(scraped: Sequence[Scraped]) -> Iterator[Part]:
    snapshots = [
        Snapshot(at=each.at, text=each.text, place=each.target, labels={"replica": each.target})
        for each in scraped
        if each.error is None
    ]
    failed = [
        FailedScrape(each.at, each.target, each.error) for each in scraped if each.error is not None
    ]
    facts, doubts = told_of_failures(failed, len(scraped))
    moments = [each.at for each in scraped]
    yield series_of(snapshots)
    yield Part(
        facts=facts,
        doubts=doubts,
        start=min(moments, default=None),
        end=max(moments, default=None),
    )


def _counts(counted: Sequence[Counted]) -> Part:
    gateways = {each.target for each in counted}
    told: dict[tuple[str, str], list[Reading]] = {}
    for each in counted:
        for name, value in each.values.items():
            if name in _COUNTED:
                readings = told.setdefault((each.target, name), [])
                readings.append(Reading(each.at, value, plain_number(value)))
    return Part(
        series=tuple(
            Series(
                signal=_COUNTED[name],
                origin=Origin(kind=SourceKind.GATEWAY, name=name, place=gateway),
                readings=tuple(readings),
                labels={"gateway": gateway} if len(gateways) > 1 else {},
            )
            for (gateway, name), readings in told.items()
        )
    )


def _logs(logged: Sequence[Logged]) -> Iterable[Part]:
    """One a replica: their lines have times, and each its own order."""
    for target in dict.fromkeys(each.target for each in logged):
        lines = [each for each in logged if each.target == target]
        reader = LogReader(target)
        reader.read(line for each in lines for line in each.text.split("\n"))
        yield reader.finish(first_at=lines[0].at)


def _read(path: Path) -> Iterator[Seen]:
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                yield _seen(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(
                    f"{path}, line {number}: {error!r} is no line that `pilothouse simulate "
                    "--metrics` writes; give the folder that it wrote, unchanged"
                ) from error


def _seen(part: dict[str, Any]) -> Seen:
    at, target = float(part["at_s"]), str(part["target"])
    match part["kind"]:
        case "metrics":
            return Scraped(at=at, target=target, text=part["text"], error=part.get("error"))
        case "log":
            return Logged(at=at, target=target, text=part["text"])
        case "gateway":
            return Counted(at=at, target=target, values=part["values"])
    raise ValueError(f"kind {part['kind']}")
