"""A simulated replica that tells its exporter what comes in, besides what its steps do."""

from collections.abc import Iterable

from dataplane.scheduling.bounds import Refusal
from dataplane.scheduling.scheduler import Scheduler
from dataplane.scheduling.sequence import Sequence
from dataplane.scheduling.step import StepPlan
from dataplane.simulation.cost import CostModel
from dataplane.simulation.observer.exporter import EngineExporter
from dataplane.simulation.replica import SimulatedReplica, StepObserver
from dataplane.simulation.timeline import Timeline


class StepObservers:
    """Several observers as one, told in order."""

    def __init__(self, *observers: StepObserver) -> None:
        self._observers = observers

    def step_began(self, plan: StepPlan) -> None:
        """Tell each."""
        for observer in self._observers:
            observer.step_began(plan)

    def step_ended(self, plan: StepPlan, complete: Iterable[Sequence]) -> None:
        """Tell each."""
        for observer in self._observers:
            observer.step_ended(plan, complete)

    def cancelled(self, sequence: Sequence, asked_at: float) -> None:
        """Tell each."""
        for observer in self._observers:
            observer.cancelled(sequence, asked_at)


class ExportedReplica(SimulatedReplica):
    """`observer` hears of the steps as the exporter does; the exporter goes first."""

    def __init__(
        self,
        timeline: Timeline,
        scheduler: Scheduler,
        cost: CostModel,
        exporter: EngineExporter,
        observer: StepObserver | None = None,
    ) -> None:
        both = exporter if observer is None else StepObservers(exporter, observer)
        super().__init__(timeline, scheduler, cost, both)
        self.exporter = exporter

    def submit(self, sequence: Sequence) -> Refusal | None:
        """As SimulatedReplica."""
        self.exporter.submitted(sequence)
        refusal = super().submit(sequence)
        if refusal is not None:
            self.exporter.refused(sequence)
        return refusal
