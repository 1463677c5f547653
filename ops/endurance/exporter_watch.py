"""Looks at what the exporters of a fleet say, before and after what its faults make of it.

What an engine counts never falls while its process lives, fits what its scheduler knows, and
adds up in each histogram. What a scrape is answered with is read back by the parser that
Prometheus's own client has, to the digit. A metrics fault stands between the two.
"""

import json
import math
from collections.abc import Callable, Iterable

from prometheus_client.parser import text_string_to_metric_families

from dataplane.simulation.faults.metrics import FaultyMetrics, Lie, LyingMetrics, MetricsFault
from dataplane.simulation.fleet import Fleet
from dataplane.simulation.observer.dialect import Dialect
from dataplane.simulation.observer.exporter import EngineExporter, FamilyFilter
from dataplane.simulation.observer.exposition import Family, Labels, Sample
from dataplane.simulation.observer.fleet_exporters import FleetExporters
from dataplane.simulation.observer.gateway_counts import GatewayCounts
from dataplane.simulation.observer.lines import Counted, Scraped, Seen, to_json
from dataplane.simulation.observer.tally import EngineTally
from ops.endurance.tally_rules import check_counts, check_tally

_PARSED_EVERY = 11
"""Scrapes: reading one takes longer than all of them are made in."""


class ExporterWatch:
    """Of one run. Make it before the fleet begins."""

    def __init__(
        self,
        fleet: Fleet,
        dialect_of: Callable[[str], Dialect],
        faults_of: Callable[[str], tuple[FaultyMetrics, ...]],
    ) -> None:
        self.num_scrapes = 0
        self._fleet = fleet
        self._told = {replica_id: _Told() for replica_id in fleet.replicas}
        self._said: dict[str, _Said] = {}

        def filters_of(replica_id: str) -> tuple[FamilyFilter, ...]:
            faulty = faults_of(replica_id)
            told = self._told[replica_id]
            said = self._said[replica_id] = _Said(told, [f for each in faulty for f in each.faults])
            return (told, *faulty, said)

        self.exporters = FleetExporters(fleet, dialect_of, self._take, filters_of)
        for replica_id, exporter in self.exporters.by_replica.items():
            self._told[replica_id].exporter = exporter
        self._admitted_before: dict[str, int] = {}

    def observe(self, every_seconds: float, until: float) -> None:
        """Scrape the replicas, and ask the gateways."""
        self.exporters.observe(every_seconds, until)
        GatewayCounts(self._fleet, self._take, every_seconds, until).start()

    def check(self) -> None:
        """Raises AssertionError where what an engine counts does not fit what it knows."""
        for replica_id, exporter in self.exporters.by_replica.items():
            engine = self._fleet.replicas[replica_id].engine
            assert exporter.is_up == (engine is not None), f"{replica_id} is up or is not"
            if engine is not None:
                check_tally(exporter.tally, engine.scheduler.stats)

    def check_end(self) -> None:
        """Raises AssertionError where a process, once idle, counted otherwise than its replica."""
        self.check()
        for replica_id, exporter in self.exporters.by_replica.items():
            counts = self._fleet.replicas[replica_id].counts()
            if counts.num_starts == 1 and exporter.is_up:
                check_counts(exporter.tally, counts)

    def _take(self, seen: Seen) -> None:
        assert json.loads(to_json(seen))["target"] == seen.target
        if isinstance(seen, Counted):
            self._check_counted(seen)
        elif isinstance(seen, Scraped):
            self.num_scrapes += 1
            assert bool(seen.text) == (seen.error is None)
            if seen.text and self.num_scrapes % _PARSED_EVERY == 0:
                check_text(seen.text, self._said[seen.target].families)

    def _check_counted(self, seen: Counted) -> None:
        values = seen.values
        assert min(values.values()) >= 0, values
        assert values["admitted"] == values["in_flight"] + values["finished"], values
        decided = values["invalid"] + values["rejected"] + values["admitted"]
        assert decided <= values["arrived"], values
        before = self._admitted_before.get(seen.target, 0)
        assert before <= values["admitted"], f"admitted fell from {before}: {values}"
        self._admitted_before[seen.target] = values["admitted"]


class _Told:
    """A FamilyFilter that checks what an engine itself says, from scrape to scrape."""

    def __init__(self) -> None:
        self.exporter: EngineExporter | None = None
        self._tally: EngineTally | None = None
        """Of the process whose counters `_before` holds."""
        self.families: list[Family] = []
        """Of the last scrape."""
        self._before: dict[tuple[str, Labels], float] = {}

    def pass_on(self, families: list[Family], target: str, at: float) -> list[Family]:
        assert self.exporter is not None
        if self.exporter.tally is not self._tally:
            self._tally, self._before = self.exporter.tally, {}
        self.families = families
        names = [family.name for family in families]
        assert len(set(names)) == len(names), f"{target} says a name twice"
        for family in families:
            self._check(family, target)
        return families

    def _check(self, family: Family, target: str) -> None:
        for sample in family.samples:
            assert math.isfinite(sample.value), f"{target}: {sample}"
            if family.kind == "gauge":
                continue
            key = (sample.name, sample.labels)
            before = self._before.get(key, 0.0)
            assert sample.value >= before, f"{target}: {sample} fell from {before}"
            self._before[key] = sample.value
        if family.kind == "histogram":
            *buckets, _, count = [sample.value for sample in family.samples]
            assert buckets == sorted(buckets), f"{target}: {family.name} has a bucket too many"
            assert buckets[-1] == count, f"{target}: {family.name} does not add up"


class _Said:
    """A FamilyFilter behind the faults: while none is at work, all is said as it was told."""

    def __init__(self, told: _Told, faults: list[MetricsFault]) -> None:
        self.families: list[Family] = []
        self._told = told
        self._faults = faults

    def pass_on(self, families: list[Family], target: str, at: float) -> list[Family]:
        if not any(_is_at_work(fault, at) for fault in self._faults):
            assert families == self._told.families, f"{target}: no fault is active at {at}"
        self.families = families
        return families


def _is_at_work(fault: MetricsFault, at: float) -> bool:
    """What a counter lost in a reset does not come back."""
    is_reset = isinstance(fault, LyingMetrics) and fault.how is Lie.RESET
    return at >= fault.at if is_reset else fault.is_active(at)


def check_text(text: str, families: Iterable[Family]) -> None:
    """Raises AssertionError unless the parser reads these families back from a text."""
    read = {
        (sample.name, tuple(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    said = {_key(family, sample): sample.value for family in families for sample in family.samples}
    assert read == said, sorted(read.items() ^ said.items())


def _key(family: Family, sample: Sample) -> tuple[str, Labels]:
    """The parser reads every counter as one with `_total`, whether its engine says it or not."""
    if family.kind == "counter" and not sample.name.endswith("_total"):
        return f"{sample.name}_total", sample.labels
    return sample.name, sample.labels
