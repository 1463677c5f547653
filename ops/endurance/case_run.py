"""Runs a random case to its end, and looks at it meanwhile.

A fleet in which a fault stays for good may never come to an end: a replica that hangs, blocks
that are gone. Then it says so, and which replica lacks what; its replicas are started anew, and
what was in flight must end all the same.
"""

from dataplane.simulation.faults.fault import Fault
from dataplane.simulation.faults.fleet_faults import FleetFaults
from dataplane.simulation.faults.memory import CancelLeak, SmallerMemory, WorkspaceSpike
from dataplane.simulation.faults.plan import FaultPlan
from dataplane.simulation.fleet import Fleet, FleetError
from dataplane.simulation.fleet_records import AllRecords
from ops.endurance.exporter_watch import ExporterWatch
from ops.endurance.fleet_strikes import ENDS_AT, strike
from ops.endurance.fleet_watch import FleetWatch
from ops.endurance.random_case import RandomCase

_TAKES_BLOCKS = (SmallerMemory, WorkspaceSpike, CancelLeak)
_SETTLES_WITHIN = 600.0


class CaseRun:
    """One run of a case. Raises AssertionError where an invariant does not hold."""

    def __init__(self, case: RandomCase, *, is_watched: bool) -> None:
        """`is_watched` False: nobody looks, and nobody keeps a record. It comes to the same."""
        self.case = case
        self.fleet = Fleet(case.scenario(), records := AllRecords() if is_watched else None)
        self.plan = FaultPlan(case.faults())
        self.watch = FleetWatch(self.fleet, records)
        self.exporters: ExporterWatch | None = None
        if is_watched and "exporters" not in case.without:
            self.exporters = ExporterWatch(self.fleet, case.dialect_of, self.plan.metrics)
        self.error: FleetError | None = None
        """Why it could not end by itself."""
        self._is_over = False
        self._install()
        if is_watched:
            self.watch.look_at(case.moments(), lambda: self._is_over)

    def _install(self) -> None:
        faults = FleetFaults(self.plan, self.fleet)
        if self.exporters is not None:
            seen = self.exporters.exporters
            faults.on_out_of_memory.append(seen.ran_out_of_memory)
            faults.on_leak.append(seen.leaked)
            self.exporters.observe(self.case.scrape_seconds(), ENDS_AT)
        if self.case.is_struck:
            strike(self.fleet, self.case.number)

    def run(self) -> "CaseRun":
        """To the end, and a look at what is left."""
        try:
            self.fleet.run()
        except FleetError as error:
            self.error = error
            self._check_words(error)
            self._restart_all()
        self._settle()
        self._is_over = True
        self.watch.check_end()
        if self.exporters is not None:
            self.exporters.check()
        return self

    def checksum(self) -> str:
        """Of all that came of its requests."""
        columns = self.fleet.results.columns
        assert columns is not None
        return columns.checksum()

    def _check_words(self, error: FleetError) -> None:
        """It names each replica that stands still, and a fault that stays says why."""
        told = str(error)
        excuses = [each for each in self.plan.faults if _stays(each)]
        is_excused = False
        for replica_id, replica in self.fleet.replicas.items():
            engine = replica.engine
            if engine is None:
                continue
            if engine.is_stalled:
                assert f"{replica_id} is stalled" in told, told
                is_excused |= self.plan.is_hung(replica_id, self.fleet.timeline.now)
            elif engine.blocked_on is not None:
                assert f"{replica_id} is blocked on {engine.blocked_on}" in told, told
                is_excused |= any(isinstance(each, _TAKES_BLOCKS) for each in excuses)
        if not is_excused:
            raise error

    def _restart_all(self) -> None:
        for replica in self.fleet.replicas.values():
            replica.kill("it was started anew")
            replica.start()

    def _settle(self) -> None:
        """What hung is resumed, and hears what its gateways gave up; links run empty."""
        fleet = self.fleet
        fleet.run_until(max(fleet.timeline.now, ENDS_AT) + 1)
        until = fleet.timeline.now + _SETTLES_WITHIN
        while self._has_work() and fleet.timeline.now < until:
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
    assert _why_endless(watched.error) == _why_endless(alone.error)
    return watched


def _why_endless(error: FleetError | None) -> list[str]:
    """Which replicas lack what. Before it stands how long was waited: where nobody looks, and
    nothing is left to happen, that is less."""
    return str(error).split("; ")[2:]


def _stays(fault: Fault) -> bool:
    """What it does is not undone by itself: leaked blocks do not come back."""
    return fault.duration is None or isinstance(fault, CancelLeak)
