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
from dataplane.simulation.timeline import Action, Timeline


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
        self._plan: StepPlan | None = None
        self._is_stepping = False
        self._is_woken = False
        self._is_stalled = False
        self._is_halted = False
        self._is_held = False  # by one of both
        self._held_back: Action | None = None

    @property
    def is_stalled(self) -> bool:
        """It makes no progress until `resume`, and hears of nothing."""
        return self._is_stalled

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
        if self._is_stepping:
            self._is_woken = True
        elif not self._is_halted:
            self._is_stepping = True
            self._timeline.after(0, self._begin_step)

    def stall(self) -> None:
        """Do nothing more: what is due waits for `resume`."""
        self._is_stalled = self._is_held = True

    def resume(self) -> None:
        """Go on with what was due meanwhile, now."""
        self._is_stalled = False
        self._is_held = self._is_halted
        held_back, self._held_back = self._held_back, None
        if held_back is not None:
            self._timeline.after(0, held_back)

    def halt(self) -> None:
        """The process is gone: nothing of it happens any more, and nobody is told."""
        self._is_halted = self._is_held = True

    def _begin_step(self) -> None:
        if self._is_held and self._must_wait(self._begin_step):
            return
        self._is_woken = False
        plan = self.scheduler.schedule()
        self._observer.step_began(plan)
        if plan.is_empty:
            self._is_stepping = False
            if self._is_woken:  # by who was told of this very plan
                self.wake()
            return
        self._plan = plan
        self._timeline.after(self.cost.step_time(plan), self._end_step)

    def _end_step(self) -> None:
        if self._is_held and self._must_wait(self._end_step):
            return
        plan, self._plan = self._plan, None
        assert plan is not None
        complete = self.scheduler.commit(plan)
        self._observer.step_ended(plan, complete)
        if not self.scheduler.has_work:
            self._is_stepping = False
        elif self._timeline.next_at == self._timeline.now:
            # Behind what else happens now: an arrival at this moment is in the next step.
            self._timeline.after(0, self._begin_step)
        else:
            self._begin_step()

    def _must_wait(self, action: Action) -> bool:
        if self._is_stalled and not self._is_halted:
            self._held_back = action
        return self._is_stalled or self._is_halted
