"""What the gateways of a fleet say of themselves, at regular times."""

from collections.abc import Callable

from dataplane.simulation.fleet import Fleet
from dataplane.simulation.observer.lines import Counted


class GatewayCounts:
    """Where the requests of each gateway stand, every `every_seconds` until `until`."""

    def __init__(
        self, fleet: Fleet, sink: Callable[[Counted], None], every_seconds: float, until: float
    ) -> None:
        self._fleet = fleet
        self._sink = sink
        self._every = every_seconds
        self._until = until
        self._num_looks = 0

    def start(self) -> None:
        """Look for the first time when the fleet begins."""
        self._fleet.timeline.at(0.0, self._look)

    def _look(self) -> None:
        timeline = self._fleet.timeline
        phases = self._fleet.phases
        for gateway in self._fleet.gateways:
            counts = gateway.counts()
            between = (
                {} if phases is None else {"to_decode": phases.num_waiting_of(gateway.gateway_id)}
            )
            self._sink(
                Counted(
                    at=timeline.now,
                    target=gateway.gateway_id,
                    values={
                        "in_flight": counts.active,
                        "undelivered": len(gateway.live()),
                        "queued": gateway.queue.num_waiting,
                        **between,
                        "arrived": counts.arrived,
                        "invalid": counts.invalid,
                        "rejected": counts.rejected,
                        "admitted": counts.admitted,
                        "finished": counts.finished,
                        "leaked": gateway.num_leaked,
                    },
                )
            )
        self._num_looks += 1
        following = self._num_looks * self._every
        if following <= self._until:
            timeline.at(following, self._look)
