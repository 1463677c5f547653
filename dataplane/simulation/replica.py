"""One replica in virtual time: the real scheduler, and steps that only cost.

    submit              the scheduler's queue
    cancel              what is to be ended before the next step
    begin a step        take cancels; schedule; its events leave at once; it takes what it costs
    end a step          commit; first tokens and ends are told; the next step begins at once

While a step runs nothing else happens: what is submitted or cancelled meanwhile is seen by the
next, as in an engine. So a sequence that is cancelled under way still selects the token of the
step that runs, and may reach its end with it (see `dataplane.host.engine_loop`).
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

    def cancelled(self, sequence: Sequence, asked_at: float) -> None:
        """It was ended early, between two steps, as somebody had asked for at `asked_at`."""
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
        self.blocked_on: str | None = None
        """What its sequences wait for since it was last to begin a step; None: nothing."""
        self._plan: StepPlan | None = None
        self._cancels: list[tuple[int, float]] = []
        """Sequence ids that are to be ended before the next step, with when it was asked for."""
        self._is_stepping = False
        self._is_woken = False
        self._is_stalled = False
        self._is_halted = False
        self._has_dropped = False  # since the step that begins was chosen
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

    def submit_follower(self, sequence: Sequence) -> Refusal | None:
        """As `submit`, for a sequence that follows from the step that ended just now: an engine
        queues it before it takes what was submitted meanwhile."""
        refusal = self.scheduler.add_follower(sequence)
        self.wake()
        return refusal

    def cancel(self, sequence_id: int) -> None:
        """End a sequence before the next step, and tell the observer. One that is unknown by
        then, or has ended, is left alone."""
        self._cancels.append((sequence_id, self._timeline.now))
        self.wake()

    def drop(self, sequence_id: int) -> Sequence | None:
        """End a sequence while a step is told to begin: it may be in the step, whose cost stands,
        and selects nothing with it. The next one releases it. None: it has ended."""
        sequence = self.scheduler.finish_sequence(sequence_id)
        self._has_dropped = True
        self.wake()
        return sequence

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
        self._is_woken = self._has_dropped = False
        if self._cancels:
            self._take_cancels()
        plan = self.scheduler.schedule()
        self.blocked_on = plan.blocked_on
        self._observer.step_began(plan)
        if plan.is_empty:
            self._is_stepping = False
            if self._is_woken:  # by who was told of this very plan
                self.wake()
            return
        self._plan = plan
        seconds = self._seconds_of(plan) if self._has_dropped else self.cost.step_time(plan)
        self._timeline.after(seconds, self._end_step)

    def _seconds_of(self, plan: StepPlan) -> float:
        """Nothing is run for those alone that were dropped."""
        if all(chunk.sequence.is_finished for chunk in plan.chunks):
            return 0.0
        return self.cost.step_time(plan)

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

    def _take_cancels(self) -> None:
        cancels, self._cancels = self._cancels, []
        for sequence_id, asked_at in cancels:
            sequence = self.scheduler.finish_sequence(sequence_id)
            if sequence is not None:
                self._observer.cancelled(sequence, asked_at)

    def _must_wait(self, action: Action) -> bool:
        if self._is_stalled and not self._is_halted:
            self._held_back = action
        return self._is_stalled or self._is_halted
