"""The requests of a stepped core that are not released, and the scheduler that runs them."""

from typing import Generic

from dataplane.host.active_request import ActiveRequest
from dataplane.host.runner import StateT
from dataplane.scheduling.scheduler import Refusal, Scheduler
from dataplane.scheduling.sequence import Sequence


class RequestTable(Generic[StateT]):
    """Knows of each sequence in the scheduler whose it is. Ids are those of requests."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._active_by_id: dict[str, ActiveRequest[StateT]] = {}

    def __contains__(self, request_id: str) -> bool:
        """It is not released yet."""
        return request_id in self._active_by_id

    def add(self, active: ActiveRequest[StateT]) -> Refusal | None:
        """Queue the first sequence, or say why it can never run; then nothing of it is kept."""
        refusal = self._scheduler.add(active.first())
        if refusal is None:
            self._active_by_id[active.request.request_id] = active
        return refusal

    def add_followers(self, sequence: Sequence) -> None:
        """The prompt of the request that `sequence` belongs to has KV: queue what shares it."""
        owner = self.owner_of(sequence)
        for follower in owner.followers():
            if (refusal := self._scheduler.add(follower)) is not None:
                raise AssertionError(f"what the first sequence may, a follower may: {refusal}")
            follower.is_paused = owner.is_paused

    def owner_of(self, sequence: Sequence) -> ActiveRequest[StateT]:
        """The request of a sequence that is not released."""
        return self._active_by_id[sequence.request_id]

    def end(self, request_id: str, index: int | None = None) -> bool:
        """End what has not ended of a request, or of its sequence `index`.

        A first sequence that ends before its prompt is computed takes its followers along.
        False when nothing was left to end, or the request is unknown.
        """
        active = self._active_by_id.get(request_id)
        if active is None:
            return False
        if active.has_followers:
            index = None
        num_ended = active.drop_followers() if index is None else 0
        for sequence in active.sequences():
            if index in (None, sequence.index):
                num_ended += self._scheduler.finish_sequence(sequence.sequence_id) is not None
        return num_ended > 0

    def pause(self, request_id: str, is_paused: bool) -> None:
        """Whether its sequences get steps, those that are still to come as well."""
        active = self._active_by_id.get(request_id)
        if active is None:
            return
        active.is_paused = is_paused
        for sequence in active.sequences():
            self._scheduler.pause(sequence.sequence_id, is_paused)

    def release(self, sequence: Sequence) -> bool:
        """The blocks of `sequence` were given back; True when that was the last of its request."""
        is_last = self.owner_of(sequence).release_one()
        if is_last:
            del self._active_by_id[sequence.request_id]
        return is_last

    def check_integrity(self) -> None:
        """Raises AssertionError when requests, sequences, blocks and prefix cache disagree."""
        self._scheduler.check_integrity()
        stats = self._scheduler.stats
        known = stats.num_running + stats.num_waiting + stats.num_unreleased
        held = sum(active.num_held for active in self._active_by_id.values())
        if known != held:
            raise AssertionError(
                f"the scheduler knows {known} sequences, the core {held} of "
                f"{len(self._active_by_id)} requests"
            )
