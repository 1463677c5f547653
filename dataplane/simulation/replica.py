"""One replica in virtual time: the real scheduler, and steps that only cost.

    submit / cancel ->  the scheduler's queue
    begin a step        schedule; its events leave at once; the step takes what it costs
    end a step          commit; first tokens and ends are told; the next step begins at once

Between two steps nothing happens: what is submitted or cancelled while one runs is seen by
the next, as in an engine.
"""

from collections.abc import Iterable
from typing import Protocol

from dataplane.scheduling.bounds import Refusal
from dataplane.scheduling.scheduler import Scheduler
from dataplane.scheduling.sequence import Sequence
from dataplane.scheduling.step import StepPlan
from dataplane.simulation.cost import CostModel
from dataplane.simulation.timeline import Timeline


class StepObserver(Protocol):
    """Who is told what the steps of a replica do. The time is the timeline's."""

    def step_began(self, plan: StepPlan) -> None:
        """Released, refused, preempted, resumed and admitted sequences are in the plan."""
        ...

    def step_ended(self, plan: StepPlan, complete: Iterable[Sequence]) -> None:
        """Its chunks are computed; `complete` are the sequences that selected their last token."""
        ...


class SimulatedReplica:
    """Runs scripted sequences. One that is idle costs nothing."""

    def __init__(
        self,
        timeline: Timeline,
        scheduler: Scheduler,
        cost: CostModel,
        observer: StepObserver,
    ) -> None:
        self.scheduler = scheduler
        self.cost = cost
        self._timeline = timeline
        self._observer = observer
        self._is_stepping = False

    def submit(self, sequence: Sequence) -> Refusal | None:
        """Queue a sequence, or say why it can never run. It needs a script."""
        refusal = self.scheduler.add(sequence)
        self.wake()
        return refusal

    def cancel(self, sequence_id: int) -> Sequence | None:
        """End a sequence early; None when it is unknown or has ended."""
        ended = self.scheduler.finish_sequence(sequence_id)
        self.wake()
        return ended

    def wake(self) -> None:
        """Begin a step once everything of this moment was put; `submit` and `cancel` do it."""
        if not self._is_stepping:
            self._is_stepping = True
            self._timeline.after(0, self._begin_step)

    def _begin_step(self) -> None:
        plan = self.scheduler.schedule()
        self._observer.step_began(plan)
        if not plan.chunks:
            self._is_stepping = False
            return
        self._timeline.after(self.cost.step_time(plan), lambda: self._end_step(plan))

    def _end_step(self, plan: StepPlan) -> None:
        complete = self.scheduler.commit(plan)
        self._observer.step_ended(plan, complete)
        if self.scheduler.has_work:
            # Behind what else happens now: an arrival at this moment is in the next step.
            self._timeline.after(0, self._begin_step)
        else:
            self._is_stepping = False
