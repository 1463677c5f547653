"""What a policy promises those who come to a queue, and what is learned so that it is kept.

    a pace         replicas are given no more than answer in time        learned as a lease ends
    a first token  nobody waits longer than leaves time for its prompt   learned by the router
    a deadline     behind another class: how fast one's own class begins learned as tickets move

What nobody promises is not measured, and costs nothing.
"""

from collections.abc import Mapping, Sequence, Set

from dataplane.clock import MonotonicClock
from dataplane.policy import AdmissionPolicyTerms, ClassPolicy
from dataplane.queueing.demand import QueueDemand
from dataplane.queueing.drain_rate import DrainRate, DrainReading
from dataplane.queueing.pace_limits import PaceLimits
from dataplane.queueing.replica_slots import ReplicaSlots
from dataplane.queueing.ticket import Lease
from dataplane.queueing.waiting_line import WaitingLine
from dataplane.routing.first_token_time import FirstTokenReading, FirstTokenTime, longest_wait
from dataplane.routing.router import Router


class Promises:
    """Of one queue, which tells it what happens there."""

    def __init__(
        self,
        clock: MonotonicClock,
        router: Router,
        slots: ReplicaSlots,
        line: WaitingLine,
        drain: DrainRate,
    ) -> None:
        """`drain` is that of all who wait."""
        self.pace: PaceLimits | None = None
        """How many each replica is given so that answers keep a pace; None: nobody asks for one.
        For reading alone."""
        self.class_drains: Mapping[str, DrainRate] = {}
        """Of classes that have a deadline behind another one. For reading alone."""
        self._clock = clock
        self._router = router
        self._slots = slots
        self._line = line
        self._drain = drain

    def keep(self, terms: AdmissionPolicyTerms) -> bool:
        """Learn what these terms ask about. The same again is no change. True: replicas may be
        given more or less than before."""
        is_other_pace = self._set_pace(terms.tpot_seconds)
        self._watch_first_tokens(
            any(each.first_token_seconds is not None for each in terms.classes)
        )
        behind = [each.name for each in terms.classes if _waits_behind(each, terms.classes)]
        self._watch_classes(set(behind))
        return is_other_pace

    def keep_replicas(self, replica_ids: Set[str]) -> None:
        """All others are gone."""
        if self.pace is not None:
            self.pace.keep_only(replica_ids)

    def note_waiting(self, class_name: str) -> None:
        """One of a class came to wait, or waits no more."""
        if (drain := self.class_drains.get(class_name)) is not None:
            drain.note_waiting(self._is_waited_for(class_name))

    def note_connected(self) -> None:
        """Replicas came or went."""
        for class_name, drain in self.class_drains.items():
            drain.note_waiting(self._is_waited_for(class_name))

    def note_begun(self, class_name: str, num_tokens: int) -> None:
        """One of a class that had waited got its slots."""
        if (drain := self.class_drains.get(class_name)) is not None:
            drain.note_begun(num_tokens)

    def note_answer(self, lease: Lease) -> None:
        """It ends, and holds its slots until this was told: how fast did its tokens come?"""
        pace, num_tokens = self.pace, lease.num_output_tokens
        if pace is None or num_tokens is None or lease.num_slots != 1:
            return
        seen = lease.placement.read_pace(num_tokens)
        if seen is not None:
            replica_id = lease.replica_id
            pace.note_answer(replica_id, seen.tpot_seconds, seen.num_tokens, seen.num_held)
            self._slots.set_lower_limit(replica_id, pace.limit(replica_id))

    def read_drain_of(self, class_name: str) -> DrainReading | None:
        """How fast those of a class begin, where it has a deadline and another one goes before
        it; None: it has not, or nobody can tell yet."""
        own, of_all = self.class_drains.get(class_name), self._drain.read()
        if own is None or of_all is None or not of_all.is_current:
            return None
        return own.read_behind(of_all)

    def read_first_token(self, num_prompt_tokens: int) -> FirstTokenReading | None:
        """How long the first token of such a prompt takes from its slot; None: nobody asks, or
        nobody can tell yet."""
        first_tokens = self._router.first_tokens
        return None if first_tokens is None else first_tokens.read(num_prompt_tokens)

    def longest_wait(self, first_token_seconds: float, demand: QueueDemand) -> float:
        """For a slot, in seconds, so that its first token comes in time."""
        routing = demand.routing
        reading = None if routing is None else self.read_first_token(routing.num_prompt_tokens)
        return longest_wait(first_token_seconds, 0.0 if reading is None else reading.of_this)

    def _set_pace(self, tpot_seconds: float | None) -> bool:
        """From now on replicas are given no more than they answer at this pace, in seconds for a
        token; None: as many as they take. True: that is another one."""
        if (None if self.pace is None else self.pace.tpot_seconds) == tpot_seconds:
            return False
        self._router.measures_pace = tpot_seconds is not None
        self.pace = None if tpot_seconds is None else PaceLimits(tpot_seconds)
        for replica_id in self._slots.replica_ids():
            self._slots.set_lower_limit(replica_id, None)
        return True

    def _watch_first_tokens(self, is_asked: bool) -> None:
        """Whether classes promise a first token, so that it is learned how long they take."""
        if is_asked is (self._router.first_tokens is None):
            self._router.first_tokens = FirstTokenTime() if is_asked else None

    def _watch_classes(self, names: Set[str]) -> None:
        """Classes that have a deadline behind another one."""
        kept = {name: drain for name, drain in self.class_drains.items() if name in names}
        for name in names - kept.keys():
            drain = kept[name] = DrainRate(self._clock)
            drain.note_waiting(self._is_waited_for(name))
        self.class_drains = kept

    def _is_waited_for(self, class_name: str) -> bool:
        """A turn of it; where no replica is connected, it is a replica that is waited for."""
        return self._slots.has_replicas and class_name in self._line.num_by_class


def _waits_behind(request_class: ClassPolicy, classes: Sequence[ClassPolicy]) -> bool:
    """It has a deadline, and another class goes before it."""
    limits = (request_class.deadline_seconds, request_class.first_token_seconds)
    return limits != (None, None) and any(c.priority > request_class.priority for c in classes)
