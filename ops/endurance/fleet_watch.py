"""Looks at a fleet while it runs, and at what is left at its end.

1. a request has one disposition, and keeps it; a call has one end;
2. blocks, tables and the prefix cache agree, and no slot is lost or given twice, nor is what
   admission gives out: places of tenants, prompt tokens, reserved blocks;
3. what has finished is released within the gateway's bound;
4. what is cached after a token was selected is everything but that token;
5. arrived = invalid + undecided + rejected + admitted, admitted = active + finished, in every
   gateway; what has ended is what arrived and is not there any more; and no count ever falls;
6. nothing that was written after a disconnect counts as delivered.
"""

from dataclasses import astuple

from dataplane.lifecycle import Delivery, Disposition, RequestCounts, State
from dataplane.scheduling.sequence import Sequence
from dataplane.simulation.call import Call
from dataplane.simulation.fleet import Fleet
from dataplane.simulation.fleet_request import FleetRequest
from dataplane.simulation.fleet_results import FleetResults
from ops.endurance.cache_watch import CacheWatch


class FleetWatch:
    """Of one run. `check` it at any moment, and `check_end` when nothing is in flight."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.num_checks = 0
        self._num_put = 0
        self._cache = CacheWatch()
        self._dispositions: dict[int, Disposition] = {}
        self._counts: dict[str, RequestCounts] = {}
        fleet.change_call.append(self._note_call)

    def check(self) -> None:
        """Raises AssertionError where an invariant does not hold."""
        self.num_checks += 1
        self.fleet.check_integrity()
        self._check_counts()
        for gateway in self.fleet.gateways:
            for request in gateway.live():
                self._check_request(request)
        self._cache.look([each for each in self._sequences() if each is not None])

    def check_end(self) -> None:
        """Nothing is left, anywhere."""
        self.check()
        for gateway in self.fleet.gateways:
            counts = gateway.counts()
            assert (counts.active, counts.undecided) == (0, 0), counts
            assert gateway.num_live == 0
            assert not gateway.held(), f"{gateway.gateway_id} still holds {gateway.held()}"
        self._check_queues_end()
        self._check_replicas_end()
        self._check_each_call_ended()

    def _sequences(self) -> list[Sequence | None]:
        """Of the requests that replicas have."""
        requests = [r for replica in self.fleet.replicas.values() for r in replica.requests()]
        return [
            sequence
            for request in requests
            for sequence in (
                [request.sequence] if request.group is None else request.group.sequences
            )
        ]

    def _note_call(self, at: float, call: Call) -> Call:
        self._num_put += 1
        return call

    def _check_counts(self) -> None:
        results = self.fleet.results
        for gateway in self.fleet.gateways:
            counts = gateway.counts()
            before = self._counts.get(gateway.gateway_id, counts)
            self._counts[gateway.gateway_id] = counts
            for name in ("arrived", "invalid", "rejected", "admitted", "finished"):
                least, now = getattr(before, name), getattr(counts, name)
                assert least <= now, f"{gateway.gateway_id}: {name} fell from {least} to {now}"
            assert min(astuple(counts)) >= 0, counts
        arrived = sum(counts.arrived for counts in self._counts.values())
        assert arrived == self._num_put, f"{self._num_put} calls were put, {arrived} arrived"
        there = self.fleet.num_in_flight
        assert arrived == results.num_ended + there, (arrived, results.num_ended, there)
        assert results.num_ended == sum(_num_ended_by_disposition(results))

    def _check_request(self, request: FleetRequest) -> None:
        is_terminal = request.state in (State.FINISHED, State.INVALID, State.REJECTED)
        assert (request.disposition is not None) == is_terminal, request.state
        if request.disposition is not None:
            first = self._dispositions.setdefault(request.number, request.disposition)
            assert first is request.disposition, f"{first} became {request.disposition}"
        if request.state is State.FINISHED and not request.is_released:
            assert request.finished_at is not None
            age = self.fleet.timeline.now - request.finished_at
            bound = self.fleet.scenario.bounds.release_seconds
            assert age <= bound, f"request {request.number}: finished {age} s ago, not released"
        if request.state is State.REJECTED:
            assert request.rejection is not None
            assert (request.status or 0) >= 400, "whoever is refused is told so"
        if request.has_left:
            assert request.delivery is not Delivery.COMPLETE

    def _check_queues_end(self) -> None:
        phases = self.fleet.phases
        queues = [gateway.queue for gateway in self.fleet.gateways]
        queues += [] if phases is None else phases.queues
        for queue in queues:
            assert queue.num_waiting == 0
            for replica_id in self.fleet.replicas:
                assert queue.num_outstanding(replica_id) == 0, replica_id
        if phases is not None:
            assert phases.num_waiting == 0
            assert phases.link.num_transfers == 0, "something is on its way still"

    def _check_replicas_end(self) -> None:
        """`check_integrity` has told already that no block is held but what a fault took."""
        for replica in self.fleet.replicas.values():
            assert replica.num_requests == 0, replica.replica_id
            if replica.engine is None:
                continue
            stats = replica.engine.scheduler.stats
            left = (stats.num_running, stats.num_waiting, stats.num_unreleased)
            assert left == (0, 0, 0), f"{replica.replica_id}: {left} run, wait, are not released"
            if replica.withholds is None:  # no fault took blocks
                assert stats.num_referenced_blocks == 0, replica.replica_id

    def _check_each_call_ended(self) -> None:
        columns = self.fleet.results.columns
        assert columns is not None
        assert sorted(columns.number) == list(range(self._num_put)), "a call has one end"


def _num_ended_by_disposition(results: FleetResults) -> list[int]:
    return [
        number
        for of_class in results.by_class.values()
        for number in of_class.num_by_disposition.values()
    ]
