"""All records of the files that were named, as one part of a window."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from controlplane.diagnosis.sources.input_error import InputError
from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.sources.records.completeness import (
    numbered,
    shortcomings,
    why_chosen,
)
from controlplane.diagnosis.sources.records.courses import OF_ENGINES, courses_of
from controlplane.diagnosis.sources.records.ended_request import EndedRequest
from controlplane.diagnosis.sources.records.late_facts import facts_of_late
from controlplane.diagnosis.sources.records.latencies import latencies_of
from controlplane.diagnosis.sources.records.lines import read_lines
from controlplane.diagnosis.sources.records.span import span_of
from controlplane.diagnosis.window import Doubt, DoubtKind, EngineName

MOST_REQUESTS = 100_000
"""Some 60 MB, and some seconds to read them."""
_MOST_NAMED = 8


class RecordsRead:
    """Of one deployment: `take` each file, then ask for the `part` of them all."""

    def __init__(self, deployment: str | None) -> None:
        """None: they must all be of one."""
        self._wanted = deployment
        self._requests: dict[tuple[str, int], EndedRequest] = {}
        self._places: list[str] = []

    def take(self, lines: Iterable[str], place: str) -> None:
        """One more file; a record that another file has as well counts once. Raises InputError."""
        self._places.append(place)
        for where, request in read_lines(lines, place):
            number = request.gateway_sequence
            unnumbered = -len(self._requests) - 1
            key = (request.gateway_id, unnumbered if number is None else number)
            self._requests[key] = request
            if len(self._requests) > MOST_REQUESTS:
                raise InputError(
                    where,
                    f"is of more than {MOST_REQUESTS} requests, and no more are read at once",
                    "give those of a shorter time, such as `pilothouse requests --all -o json "
                    "--since 30m`",
                )

    def part(self) -> Part:
        """All of them, at least one. Raises InputError where they are of several deployments and
        nobody said which."""
        requests = sorted(self._of_deployment(), key=lambda each: each.arrived_at_unix_ns)
        place = self._places[0] if len(self._places) == 1 else f"{len(self._places)} files"
        missing = numbered(self._requests.values())
        span = span_of(requests, is_from_first=missing.is_from_first)
        chosen = why_chosen(requests, missing)
        said = [chosen] if chosen else shortcomings(requests, span, missing)
        doubts = tuple(Doubt(kind=DoubtKind.UNREADABLE, name=place, what=what) for what in said)
        if chosen:
            return Part(doubts=doubts, start=span.start, end=span.end)
        courses = courses_of(requests, span, place) if span.has_course else ()
        return Part(
            series=tuple(courses),
            histograms=tuple(latencies_of(requests, span, place)),
            facts=facts_of_late(requests, span),
            doubts=doubts,
            engine=_engine(requests),
            start=span.start,
            end=span.end,
        )

    def _of_deployment(self) -> list[EndedRequest]:
        """Requests that reached none are of nobody where others did."""
        counted = Counter(each.deployment for each in self._requests.values())
        names = [name for name, _ in counted.most_common() if name is not None]
        told = ", ".join(f"{name} ({counted[name]})" for name in names[:_MOST_NAMED])
        if len(names) > _MOST_NAMED:
            told += f" and {len(names) - _MOST_NAMED} more"
        if self._wanted is not None and self._wanted not in names:
            raise InputError(
                self._places[0],
                f"holds no request of {self._wanted}, but of {told or 'no deployment'}",
                "name one that is there with --deployment",
            )
        if self._wanted is None and len(names) > 1:
            raise InputError(
                self._places[0],
                f"holds requests of several deployments: {told}",
                "say which one with --deployment",
            )
        wanted = self._wanted or next(iter(names), None)
        return [each for each in self._requests.values() if each.deployment == wanted]


_ENGINES = {
    "vllm": "vllm",
    "sglang": "sglang",
    "llamacpp": "llama.cpp",
    "paged": "pilothouse",
    "simulator": "pilothouse",
}
"""By the adapter. `openai` is in front of any engine, and names none."""


def _engine(requests: Iterable[EndedRequest]) -> EngineName | None:
    """That of all whose adapter names one; None where they are of several."""
    adapters = {each.engine for each in requests if each.engine is not None}
    names = {_ENGINES.get(adapter) for adapter in adapters}
    name = next(iter(names)) if len(names) == 1 else None
    return None if name is None else EngineName(name=name)


def without_engines_own(records: Part, others: Sequence[Part]) -> Part:
    """`records` without what pages and logs tell that are read as well."""
    told = {series.signal for part in others for series in part.series} & OF_ENGINES
    is_named = any(part.engine is not None for part in others)
    return replace(
        records,
        series=tuple(each for each in records.series if each.signal not in told),
        engine=None if is_named else records.engine,
    )
