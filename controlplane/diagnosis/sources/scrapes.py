"""Metrics pages over time, from one endpoint or several, into signals.

Each page is read (`exposition`), what it tells is picked out and added up (`targets`,
`gathering`), all of it is doubted (`trust`), and what no engine says itself but follows from what
it says is added (`derived`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.diagnosis.reading import SourceKind
from controlplane.diagnosis.sources.endpoint import Endpoint
from controlplane.diagnosis.sources.joining import beside
from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.sources.trust import pages
from controlplane.diagnosis.window import Doubt
from dataplane.engine_metrics.exposition import ExpositionReader
from dataplane.engine_metrics.gathering import Gatherer


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One page at one time."""

    at: float
    """Seconds on the window's clock."""
    text: str
    place: str = ""
    """A file or an address."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Which of several endpoints it is of: `{"replica": "10.0.0.7:8000"}`."""


def series_of(snapshots: Sequence[Snapshot], kind: SourceKind = SourceKind.METRICS) -> Part:
    """All that `snapshots` tell. Raises NotMetricsError for one that is no metrics page."""
    reader, gatherer = ExpositionReader(), Gatherer()
    in_order = sorted(snapshots, key=lambda each: each.at)
    read = [(each, reader.read(each.text, each.place)) for each in in_order]
    some_are_complete = any(page.is_complete for _, page in read)
    endpoints: dict[tuple[tuple[str, str], ...], Endpoint] = {}
    doubts: list[Doubt] = []
    for snapshot, page in read:
        samples, more = pages.checked(page, snapshot.at, snapshot.place, some_are_complete)
        doubts += more
        key = tuple(sorted(snapshot.labels.items()))
        endpoint = endpoints.setdefault(
            key, Endpoint(snapshot.labels, snapshot.place, kind, gatherer)
        )
        endpoint.take(samples, page.names, snapshot.at)
    return beside([Part(doubts=tuple(doubts)), *(each.tell() for each in endpoints.values())])
