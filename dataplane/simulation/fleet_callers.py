"""Whoever calls a simulated fleet: sources of calls, and clients that go on once answered."""

from collections.abc import Callable

from dataplane.lifecycle import Delivery
from dataplane.simulation.call import Call, CallSource
from dataplane.simulation.clients import Retries
from dataplane.simulation.fleet_request import FleetRequest
from dataplane.simulation.fleet_scenario import FleetScenario
from dataplane.simulation.random_streams import random_stream
from dataplane.simulation.replay import ReplayedTraffic
from dataplane.simulation.timeline import Timeline
from dataplane.simulation.token_space import TokenSpace
from dataplane.simulation.traffic import SyntheticTraffic

PutCall = Callable[[Call, int], None]
"""Has a call arrive now; the number says how often it was sent before."""


class FleetCallers:
    """Nobody calls from the end of the scenario's duration on."""

    def __init__(self, scenario: FleetScenario, timeline: Timeline, put_call: PutCall) -> None:
        self._duration = scenario.duration
        self._timeline = timeline
        self._put_call = put_call
        self._retry_stream = random_stream(scenario.seed, "retries")

    def expect(self, source: CallSource) -> None:
        """Have the calls of a source arrive, one after the other."""
        made = source.next_call()
        if made is not None and made[0] < self._duration:
            arrival = _Arrival(self._timeline, self._duration, source, made[1], self._put_call)
            self._timeline.at(made[0], arrival.happen)

    def go_on(self, request: FleetRequest) -> None:
        """Its client was answered, or has left: it takes its next turn, or tries again."""
        call = request.call
        if request.status == 200 and request.delivery is Delivery.COMPLETE:
            if call.conversation is not None:
                for wait, following in call.conversation.next_turns():
                    self._put_later(wait, following, 0)
            return
        retries = call.caller.client.retries
        if retries is not None and _may_come_again(request, retries):
            pause = retries.pause(
                request.num_tries, request.retry_after, self._retry_stream.random()
            )
            if pause is not None:
                self._put_later(pause, call, request.num_tries + 1)

    def _put_later(self, seconds: float, call: Call, num_tries: int) -> None:
        if self._timeline.now + seconds < self._duration:
            self._timeline.after(seconds, lambda: self._put_call(call, num_tries))


class _Arrival:
    """The next call of one source, waiting for its time."""

    __slots__ = ("_call", "_duration", "_put_call", "_source", "_timeline")

    def __init__(
        self,
        timeline: Timeline,
        duration: float,
        source: CallSource,
        call: Call,
        put_call: PutCall,
    ) -> None:
        self._timeline = timeline
        self._duration = duration
        self._source = source
        self._call = call
        self._put_call = put_call

    def happen(self) -> None:
        """It arrives, and the one behind it is waited for."""
        call, timeline = self._call, self._timeline
        made = self._source.next_call()
        if made is not None and made[0] < self._duration:
            self._call = made[1]
            timeline.at(max(made[0], timeline.now), self.happen)
        self._put_call(call, 0)


def open_sources(scenario: FleetScenario) -> list[CallSource]:
    """Where the calls of a scenario come from."""
    tokens = TokenSpace(is_told_apart=scenario.is_prefix_caching)
    return [
        *(SyntheticTraffic(spec, scenario.seed, tokens) for spec in scenario.traffic),
        *(ReplayedTraffic(spec, tokens) for spec in scenario.replays),
    ]


def _may_come_again(request: FleetRequest, retries: Retries) -> bool:
    if request.has_left:
        return retries.when_impatient
    status = request.status
    return status is not None and (status == 429 or status >= 500)
