"""What a step comes to for the requests in it: followers, ends, releases, and what is told."""

from collections.abc import Iterator, Mapping
from collections.abc import Sequence as ReadableSequence
from typing import Generic

from dataplane.host.core import CoreEvent
from dataplane.host.core_events import CoreEvents
from dataplane.host.request_table import RequestTable
from dataplane.host.runner import Selected, StateT
from dataplane.lifecycle import Disposition, EventKind
from dataplane.scheduling.scheduler import ScheduledChunk, Scheduler, StepPlan
from dataplane.scheduling.sequence import Sequence


class StepOutcome(Generic[StateT]):
    """Follows up what was planned and what was selected; each event is told as it is made."""

    def __init__(
        self, events: CoreEvents, scheduler: Scheduler, requests: RequestTable[StateT]
    ) -> None:
        self._events = events
        self._scheduler = scheduler
        self._requests = requests

    def of_plan(self, plan: StepPlan) -> Iterator[CoreEvent]:
        """What was refused, released, preempted, resumed and begun when it was scheduled."""
        requests = self._requests
        for refusal in plan.refused:
            # An answer that cannot be completed is no answer: the whole request fails.
            request_id = refusal.sequence.request_id
            requests.end(request_id)
            yield self._events.end(request_id, Disposition.ERROR, refusal.reason)
        for sequence in plan.released:
            owner = requests.owner_of(sequence)
            owner.meter_of(sequence).drop_blocks(self._events.now())
            if requests.release(sequence):
                yield self._events.of(sequence, EventKind.RELEASED, used=owner.used)
        for sequence in plan.preempted:
            requests.owner_of(sequence).meter_of(sequence).drop_blocks(self._events.now())
            yield self._events.of(sequence, EventKind.PREEMPTED, reason="kv blocks")
        for sequence in plan.resumed:
            yield self._events.of(sequence, EventKind.RESUMED)
        for sequence in plan.admitted:
            if sequence.index == 0:  # work on the request begins once
                yield self._events.of(sequence, EventKind.SCHEDULED)

    def count_step(self, live: ReadableSequence[ScheduledChunk], started_at: float) -> None:
        """Share the time of a step that ends now among those that it computed something for."""
        ended_at = self._events.now()
        num_tokens = sum(chunk.num_tokens for chunk in live)
        for chunk in live:
            sequence = chunk.sequence
            seconds = (ended_at - started_at) * chunk.num_tokens / num_tokens
            self._requests.owner_of(sequence).meter_of(sequence).count_step(
                seconds, len(sequence.block_table), started_at, ended_at
            )

    def of_chunk(
        self, chunk: ScheduledChunk, selected: Mapping[int, Selected], at_limit: set[int]
    ) -> Iterator[CoreEvent]:
        """What was computed and selected. `at_limit` are the sequences that may select no more;
        those and the selected tokens go by sequence id."""
        sequence = chunk.sequence
        if chunk.is_prefill:
            is_first = chunk.start == sequence.num_cached_tokens and not sequence.num_preemptions
            yield self._events.of(
                sequence,
                EventKind.PREFILL_CHUNK,
                num_tokens=chunk.num_tokens,
                num_cached_tokens=sequence.num_cached_tokens if is_first else None,
            )
        if chunk.selects_token:
            yield self._tell_token(sequence, selected[sequence.sequence_id])
            yield from self._tell_end(sequence, sequence.sequence_id in at_limit)

    def _tell_token(self, sequence: Sequence, selected: Selected) -> CoreEvent:
        is_first = sequence.num_output_tokens == 1
        if is_first:
            self._requests.add_followers(sequence)
        return self._events.of(
            sequence,
            EventKind.FIRST_TOKEN if is_first else EventKind.TOKENS,
            num_tokens=None if is_first else 1,
            token_ids=(selected.token_id,),
            scores=() if selected.score is None else (selected.score,),
        )

    def _tell_end(self, sequence: Sequence, is_at_limit: bool) -> Iterator[CoreEvent]:
        request_id, index = sequence.request_id, sequence.index
        if self._requests.owner_of(sequence).is_end(sequence.output_token_ids[-1]):
            self._scheduler.finish_sequence(sequence.sequence_id)
            yield self._events.end(request_id, Disposition.STOP, sequence=index)
        elif is_at_limit:
            yield self._events.end(request_id, Disposition.LENGTH, sequence=index)
