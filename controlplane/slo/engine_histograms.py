"""Which promises the histograms of an engine can judge, where no request passes through a gateway.

    what is promised         what the engine's page tells of it
    ttft, tpot, e2e          how many took at most so long, at the edges of its buckets alone, of
                             all classes together, at the boundary `engine`, of the requests that
                             came so far: who was refused or failed is in no histogram
    anything else            nothing

A threshold that is no edge is judged at the nearest smaller edge, which promises no less; one that
has none above its half is refused, since that would be another promise.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from controlplane.slo.promised import Promise
from controlplane.specs.quantity import format_duration
from dataplane.contract_terms import ObjectiveSignal
from dataplane.engine_metrics.alias import Alias, AliasTable
from dataplane.engine_metrics.bucket_edges import KNOWN_EDGES, EdgesByName
from dataplane.engine_metrics.exported import MetricNotExportedError, require_exported
from dataplane.engine_metrics.signal import Signal
from dataplane.engine_metrics.tables import TABLES
from dataplane.latency import Boundary

_SIGNALS = {
    ObjectiveSignal.TTFT.value: Signal.TTFT,
    ObjectiveSignal.TPOT.value: Signal.TPOT,
    ObjectiveSignal.E2E.value: Signal.E2E,
}
_LEAST_SHARE = 0.5
"""Of a threshold: an edge below that is another promise."""
_SHOWN_EDGES = 3
_UNKNOWN_EDGES = "until its page was seen nobody knows the bucket edges"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineObjective:
    """A promise that one histogram judges."""

    promise: Promise
    """Its threshold is an edge."""
    histogram: str
    """As on the wire, without a suffix."""
    edge: float
    """In the unit of the export."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unjudged:
    """A promise that none judges, and why."""

    promise: Promise
    why: str
    is_refused: bool = False
    """Its threshold lies between two edges that are too far apart: the contract cannot be kept to
    there, and must be another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineView:
    """What of a contract can be judged by an engine's own metrics."""

    objectives: tuple[EngineObjective, ...] = ()
    unjudged: tuple[Unjudged, ...] = ()
    rescaled: tuple[tuple[Promise, str], ...] = ()
    """Promises that are judged by a stricter threshold than they name, and a sentence each."""

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence for each promise that is not judged as it is written."""
        return (
            *(f"{each.deployment} {each.name}: {sentence}" for each, sentence in self.rescaled),
            *(
                f"{each.promise.deployment} {each.promise.name}: {each.why}"
                for each in self.unjudged
            ),
        )


def view_by_engine(
    promises: Sequence[Promise],
    boundary: Boundary,
    engine: str,
    page: EdgesByName | None = None,
) -> EngineView:
    """Of one deployment that is only observed. `page`: the histograms that its engine was seen to
    export, with their edges; None: it was not seen, and what its engine exports unless it is
    configured is taken."""
    table = _table(engine, page)
    objectives: list[EngineObjective] = []
    unjudged: list[Unjudged] = []
    rescaled: list[tuple[Promise, str]] = []
    for promise in promises:
        why = _why_unseen(promise, promises, boundary, engine, table)
        if why is not None or table is None:
            unjudged.append(Unjudged(promise=promise, why=why or ""))
            continue
        found = _judged(promise, table, page)
        if isinstance(found, Unjudged):
            unjudged.append(found)
            continue
        objectives.append(found)
        if found.promise.at_most_seconds != promise.at_most_seconds:
            rescaled.append((promise, _why_rescaled(promise, found)))
    return EngineView(
        objectives=tuple(objectives), unjudged=tuple(unjudged), rescaled=tuple(rescaled)
    )


def _table(engine: str, page: EdgesByName | None) -> AliasTable | None:
    """That of `engine`, or of whoever has the names on its page: any server may stand behind an
    adapter that speaks OpenAI's API."""
    named = next((each for each in TABLES if each.engine == engine), None)
    if named is not None or not page:
        return named
    return next((each for each in TABLES if each.engine and not each.names.isdisjoint(page)), None)


def _why_unseen(
    promise: Promise,
    promises: Sequence[Promise],
    boundary: Boundary,
    engine: str,
    table: AliasTable | None,
) -> str | None:
    """None: a histogram may tell."""
    signal = _SIGNALS.get(promise.objective)
    if signal is None:
        return (
            "not judged: no request of a deployment that is only observed passes through "
            "Pilothouse, and no metric of an engine tells it"
        )
    if table is None or signal not in table.signals:
        return f"not judged: {engine} exports no histogram of it that is known"
    if len({each.request_class for each in promises}) > 1:
        return (
            "not judged: the engine's histogram does not tell classes apart; give a deployment "
            "that is only observed a contract of one class"
        )
    if boundary is not Boundary.ENGINE:
        return (
            f"not judged: it is promised at the boundary {boundary.value}, and the engine's "
            "histogram is of the boundary engine; write boundary: engine"
        )
    return None


def _judged(
    promise: Promise, table: AliasTable, page: EdgesByName | None
) -> EngineObjective | Unjudged:
    try:
        alias, edges = _histogram(_SIGNALS[promise.objective], table, page)
    except MetricNotExportedError as error:
        why = str(error) if page is not None else f"{_UNKNOWN_EDGES} of {error.name}"
        return Unjudged(promise=promise, why=f"not judged: {why}")
    at_most = promise.at_most_seconds
    assert at_most is not None  # of a latency
    in_seconds = {edge * alias.factor: edge for edge in edges}
    fitting = [bound for bound in in_seconds if bound <= at_most or math.isclose(bound, at_most)]
    nearest = max(fitting, default=0.0)
    if nearest < _LEAST_SHARE * at_most:
        return Unjudged(
            promise=promise, is_refused=True, why=_why_refused(at_most, alias, list(in_seconds))
        )
    is_edge = math.isclose(nearest, at_most)
    judged = promise if is_edge else replace(promise, at_most_seconds=nearest)
    return EngineObjective(promise=judged, histogram=alias.exported, edge=in_seconds[nearest])


def _histogram(
    signal: Signal, table: AliasTable, page: EdgesByName | None
) -> tuple[Alias, tuple[float, ...]]:
    """The best that is exported. Raises MetricNotExportedError."""
    edges_by_name = KNOWN_EDGES if page is None else page
    aliases = [alias for alias in table.aliases if alias.signal is signal]
    for alias in aliases:
        if alias.exported in edges_by_name:
            return alias, edges_by_name[alias.exported]
    seen = f"what was seen of {table.engine}"
    require_exported(aliases[0].exported, table, edges_by_name, seen)
    raise AssertionError("a histogram that is exported was found before")


def _why_refused(at_most: float, alias: Alias, bounds: Sequence[float]) -> str:
    nearest = sorted(sorted(bounds, key=lambda bound: abs(bound - at_most))[:_SHOWN_EDGES])
    return (
        f"{alias.exported} has no bucket edge between half of {format_duration(at_most)} and all "
        f"of it, so that nobody can count who keeps it: write at_most: "
        f"{' or '.join(format_duration(bound) for bound in nearest)}, or configure the engine's "
        "buckets and apply this once its page was seen"
    )


def _why_rescaled(promise: Promise, judged: EngineObjective) -> str:
    assert promise.at_most_seconds is not None
    assert judged.promise.at_most_seconds is not None
    return (
        f"judged at {format_duration(judged.promise.at_most_seconds)} and not at "
        f"{format_duration(promise.at_most_seconds)}, which is no bucket edge of "
        f"{judged.histogram}"
    )


def shared_edges(pages: Sequence[EdgesByName]) -> EdgesByName:
    """What all replicas of a deployment export, of at least one, at the edges that all have."""
    names = set.intersection(*(set(page) for page in pages))
    return {
        name: tuple(sorted(set.intersection(*(set(page[name]) for page in pages))))
        for name in sorted(names)
    }
