"""When waiting requests may join those that run: three regimes in front of one scheduler.

    fixed        before the batch starts: whoever waits then, and nobody until all have ended
    dynamic      the same, after a formation window in which the batch may fill
    continuous   between iterations: the scheduler's own way

The scheduler stays as it is; a gate in front of it holds requests back. A batch is at most
`max_sequences` large. That is a bound, not a supply: 16 requests are 16, however many might run.
Source of the names: tests/golden/mechanisms.yaml, `batching_regimes`.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from dataplane.scheduling.bounds import Refusal, find_refusal
from dataplane.scheduling.scheduler import Scheduler
from dataplane.scheduling.sequence import Sequence, SequenceStatus
from dataplane.scheduling.step import StepPlan
from dataplane.simulation.cost import CostModel
from dataplane.simulation.replica import SimulatedReplica, StepObserver
from dataplane.simulation.timeline import Timeline


class Regime(StrEnum):
    """When requests are admitted."""

    FIXED = "fixed"
    DYNAMIC = "dynamic"
    CONTINUOUS = "continuous"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """A regime with its bounds. Raises ValueError for bounds that cannot be."""

    regime: Regime
    max_sequences: int
    """Of one batch. The scheduler has a bound of its own, and it holds as well."""
    window: float = 0
    """Of `dynamic`, in the timeline's unit: how long a batch may take to form, counted from the
    arrival of its oldest request. A full batch waits no longer."""

    def __post_init__(self) -> None:
        if self.max_sequences < 1:
            raise ValueError(f"a batch of {self.max_sequences} sequences does nothing; at least 1")
        if self.window < 0:
            raise ValueError(f"a window of {self.window} is over before it begins; at least 0")
        if self.window and self.regime is not Regime.DYNAMIC:
            raise ValueError(f"a formation window is of the regime dynamic, not {self.regime}")

    def num_to_admit(self, num_active: int, num_waiting: int, is_window_over: bool) -> int:
        """How many of those that wait, oldest first, may join now."""
        if self.regime is Regime.CONTINUOUS:
            return num_waiting
        if num_active:
            return 0
        if num_waiting < self.max_sequences and not is_window_over:
            return 0
        return min(num_waiting, self.max_sequences)


class BatchingReplica:
    """A simulated replica behind the gate of a regime."""

    def __init__(
        self,
        timeline: Timeline,
        scheduler: Scheduler,
        cost: CostModel,
        batching: Batching,
        observer: StepObserver,
    ) -> None:
        self._timeline = timeline
        self._batching = batching
        self._observer = observer
        self._replica = SimulatedReplica(timeline, scheduler, cost, self)
        self._waiting: deque[tuple[float, Sequence]] = deque()  # with the arrival, oldest first
        self._num_active = 0

    @property
    def num_waiting(self) -> int:
        """Sequences that the gate holds back."""
        return len(self._waiting)

    def submit(self, sequence: Sequence) -> Refusal | None:
        """Let a sequence wait at the gate, or say why it can never run."""
        refusal = find_refusal(self._replica.scheduler.config, sequence)
        if refusal is not None:
            sequence.move_to(SequenceStatus.FINISHED)
            return refusal
        self._waiting.append((self._timeline.now, sequence))
        self._look_after(0)
        if self._batching.window:
            self._look_after(self._batching.window)
        return None

    def cancel(self, sequence_id: int) -> None:
        """End a sequence early: at the gate at once, behind it before the next step."""
        for position, (_, sequence) in enumerate(self._waiting):
            if sequence.sequence_id == sequence_id:
                del self._waiting[position]
                sequence.move_to(SequenceStatus.FINISHED)
                self._observer.cancelled(sequence, self._timeline.now)
                return
        self._replica.cancel(sequence_id)

    def step_began(self, plan: StepPlan) -> None:
        """Whoever was released makes room."""
        self._num_active -= len(plan.released)
        self._observer.step_began(plan)
        if plan.released:
            self._look_after(0)

    def step_ended(self, plan: StepPlan, complete: Iterable[Sequence]) -> None:
        """Told on; the room of `complete` is free when they are released."""
        self._observer.step_ended(plan, complete)

    def cancelled(self, sequence: Sequence, asked_at: float) -> None:
        """Told on; its room is free when it is released."""
        self._observer.cancelled(sequence, asked_at)

    def _look_after(self, delay: float) -> None:
        """Behind what else happens then: all arrivals of one moment may be in one batch."""
        self._timeline.after(delay, self._admit)

    def _admit(self) -> None:
        waiting = self._waiting
        if not waiting:
            return
        is_window_over = self._timeline.now >= waiting[0][0] + self._batching.window
        num = self._batching.num_to_admit(self._num_active, len(waiting), is_window_over)
        for _ in range(num):
            _, sequence = waiting.popleft()
            self._num_active += 1
            self._replica.submit(sequence)
