"""What a step leaves behind when it has run: KV, cached blocks, and selected tokens."""

from collections.abc import Mapping
from types import MappingProxyType

from dataplane.scheduling.block_tables import BlockTables
from dataplane.scheduling.cohort import by_rank
from dataplane.scheduling.running import Running
from dataplane.scheduling.selection import check_scripted, check_selected
from dataplane.scheduling.sequence import Sequence
from dataplane.scheduling.step import ScheduledChunk, StepPlan

_AS_SCRIPTED: Mapping[int, int] = MappingProxyType({})


class Landing:
    """Records steps of the sequences in `running`."""

    def __init__(self, tables: BlockTables, running: Running) -> None:
        self._tables = tables
        self._running = running

    def land(self, plan: StepPlan, selected: Mapping[int, int] | None) -> list[Sequence]:
        """Record that `plan` ran; who is complete with it, oldest first.

        `selected` as for `Scheduler.commit`. Raises SchedulerError, and changes nothing, for a
        wrong set of tokens.
        """
        cohort, apart = self._running.cohort, plan.chunks_apart
        told = cohort.unscripted() if cohort.num_unscripted else []
        if selected is None:
            if told or apart:
                check_scripted(plan, told)
            selected = _AS_SCRIPTED
        else:
            check_selected(plan, selected)
        live = [chunk for chunk in apart if not chunk.sequence.is_finished] if apart else []
        self._advance(live)
        complete = cohort.ending[:]
        if told or live:
            complete += self._select(told, live, selected)
        if len(complete) > 1:
            complete.sort(key=by_rank)
        return complete

    def _advance(self, live: list[ScheduledChunk]) -> None:
        """The KV of the step is written: of the whole cohort, and of `live` chunks apart."""
        self._running.cohort.tick.now += 1
        for chunk in live:
            chunk.sequence.num_computed_tokens += chunk.num_tokens
        if self._tables.prefix_cache is not None:
            for sequence in self._running.filled([chunk.sequence for chunk in live]):
                self._tables.prefix_cache.register(sequence)

    def _select(
        self, told: list[Sequence], live: list[ScheduledChunk], selected: Mapping[int, int]
    ) -> list[Sequence]:
        """Append what was selected; who is complete with it. Others that were apart and have
        caught up go on with the cohort."""
        complete = []
        for sequence in told:
            sequence.select(selected[sequence.sequence_id])
            if sequence.is_complete:
                complete.append(sequence)
        for chunk in live:
            if chunk.selects_token:
                sequence = chunk.sequence
                sequence.select(selected.get(sequence.sequence_id))
                if sequence.is_complete:
                    complete.append(sequence)
                elif not sequence.is_paused:
                    self._running.catch_up(sequence)
        return complete
