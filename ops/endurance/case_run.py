"""Runs a random case to its end, and looks at it meanwhile.

A fleet in which a fault stays for good may never come to an end: a replica that hangs, blocks
that are gone. Then it says so, and which replica lacks what; its replicas are started anew, and
what was in flight must end all the same.
"""

from collections.abc import Iterator

from dataplane.simulation.faults.fault import Fault
from dataplane.simulation.faults.fleet_faults import FleetFaults
from dataplane.simulation.faults.memory import CancelLeak, SmallerMemory, WorkspaceSpike
from dataplane.simulation.faults.plan import FaultPlan
from dataplane.simulation.fleet import Fleet
from dataplane.simulation.fleet_summary import FleetSummary, summarize
from ops.endurance.exporter_watch import ExporterWatch
from ops.endurance.fleet_strikes import ENDS_AT, strike
from ops.endurance.fleet_watch import FleetWatch
from ops.endurance.random_case import RandomCase
from ops.endurance.record_watch import RecordWatch

_SETTLES_WITHIN = 600.0


class CaseRun:
    """One run of a case. Raises AssertionError where an invariant does not hold."""

    def __init__(self, case: RandomCase, *, is_watched: bool) -> None:
        """`is_watched` False: nobody looks, and nobody keeps a record. It comes to the same."""
        self.case = case
        self.records = RecordWatch() if is_watched else None
        self.fleet = Fleet(case.scenario(), self.records)
        self.plan = FaultPlan(case.faults())
        self.watch = FleetWatch(self.fleet)
        self.exporters: ExporterWatch | None = None
        if is_watched and "exporters" not in case.without:
            self.exporters = ExporterWatch(self.fleet, case.dialect_of, self.plan.metrics)
        self.waits: tuple[str, ...] = ()
        """What those waited for that nothing ended."""
        self._is_over = False
        self._install()
        if is_watched:
            self._look_at(iter(case.moments()))

    def _install(self) -> None:
        faults = FleetFaults(self.plan, self.fleet)
        if self.exporters is not None:
            seen = self.exporters.exporters
            faults.on_out_of_memory.append(seen.ran_out_of_memory)
            faults.on_leak.append(seen.leaked)
            self.exporters.observe(self.case.scrape_seconds(), ENDS_AT)
        if self.case.is_struck:
            strike(self.fleet, self.case.number, self.case.snap)

    def _look_at(self, moments: Iterator[float]) -> None:
        """At all of these moments, as long as it is not over."""

        def look() -> None:
            self._check()
            if not self._is_over:
                self._look_at(moments)

        if (at := next(moments, None)) is not None:
            self.fleet.timeline.at(at, look)

    def _check(self) -> None:
        self.watch.check()
        if self.exporters is not None:
            self.exporters.check()

    def run(self) -> "CaseRun":
        """To the end, and a look at what is left."""
        self.fleet.run_out()
        check_summary(summary := summarize(self.fleet))
        if self.fleet.num_in_flight:
            self.waits = summary.waits
            self._check_excuse()
            self._restart_all()
        self._settle()
        self._is_over = True
        self._check_end()
        return self

    def _check_end(self) -> None:
        self.watch.check_end()
        check_summary(summarize(self.fleet))
        if self.exporters is not None:
            self.exporters.check_end()
        columns = self.fleet.results.columns
        if self.records is not None and columns is not None:
            self.records.check_rows(columns)
            num_leaked = sum(gateway.num_leaked for gateway in self.fleet.gateways)
            assert self.records.num_unreleased <= num_leaked, "an end without a release"

    def checksum(self) -> str:
        """Of all that came of its requests."""
        columns = self.fleet.results.columns
        assert columns is not None
        return columns.checksum()

    def _check_excuse(self) -> None:
        """Each replica that stands still is named, and a fault that stays says why one does."""
        is_excused = False
        for replica_id, replica in self.fleet.replicas.items():
            engine = replica.engine
            if engine is None:
                continue
            if engine.is_stalled:
                assert f"{replica_id} is stalled" in self.waits
                is_excused |= self.plan.is_hung(replica_id, self.fleet.timeline.now)
            elif engine.blocked_on is not None:
                assert f"{replica_id} is blocked on {engine.blocked_on}" in self.waits
                is_excused |= any(map(_keeps_blocks, self.plan.faults))
        assert is_excused, f"{self.fleet.num_in_flight} do not end, and {self.waits or 'nothing'}"

    def _restart_all(self) -> None:
        """When they were waited for long enough: where nobody looks, nothing happens until then."""
        scenario = self.fleet.scenario
        self.fleet.run_until(scenario.duration + scenario.max_drain_seconds)
        for replica in self.fleet.replicas.values():
            replica.kill("it was started anew")
            replica.start()

    def _settle(self) -> None:
        """What hung is resumed, and hears what its gateways gave up; links run empty."""
        fleet = self.fleet
        fleet.run_until(max(fleet.timeline.now, ENDS_AT) + 1)
        until = fleet.timeline.now + _SETTLES_WITHIN
        while self._has_work() and fleet.timeline.now < until:
            for replica in fleet.replicas.values():
                replica.resume()
            fleet.run_until(fleet.timeline.now + 1)

    def _has_work(self) -> bool:
        fleet = self.fleet
        engines = [replica.engine for replica in fleet.replicas.values()]
        return (
            fleet.num_in_flight > 0
            or any(engine is not None and engine.scheduler.has_work for engine in engines)
            or (fleet.phases is not None and fleet.phases.link.num_transfers > 0)
        )


def run_twice(case: RandomCase) -> CaseRun:
    """Watched and not: both come to the same results, to the last digit. Returns the first."""
    watched = CaseRun(case, is_watched=True).run()
    alone = CaseRun(case, is_watched=False).run()
    assert watched.checksum() == alone.checksum(), "who looks on changes what happens"
    assert watched.waits == alone.waits
    return watched


def check_summary(summary: FleetSummary) -> None:
    """Raises AssertionError unless every request is in one place."""
    for each in summary.classes:
        assert each.offered == each.invalid + each.rejected + each.admitted, each
        ended = each.answered + each.cut_off + each.left + each.failed
        assert each.admitted == ended + each.in_flight, each
        assert each.offered == sum(each.by_disposition.values()) + each.in_flight, each
        assert min(each.answered, each.cut_off, each.left, each.failed, each.in_flight) >= 0, each
    arrived = sum(gateway.arrived for gateway in summary.gateways)
    assert arrived == sum(each.offered for each in summary.classes)


def _keeps_blocks(fault: Fault) -> bool:
    """For good: leaked blocks do not come back."""
    is_gone = isinstance(fault, SmallerMemory | WorkspaceSpike) and fault.duration is None
    return is_gone or isinstance(fault, CancelLeak)
