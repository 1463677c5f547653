"""A replica that runs random sequences while somebody looks at it."""

import random
from collections.abc import Iterable
from collections.abc import Sequence as ReadableSequence

from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.scheduling.scheduler import Scheduler
from dataplane.scheduling.sequence import Sequence
from dataplane.scheduling.step import StepPlan
from dataplane.simulation.cost import CostModel, LinearCost
from dataplane.simulation.faults.fault import Fault
from dataplane.simulation.faults.plan import FaultPlan
from dataplane.simulation.observer.dialect import Dialect, EngineIdentity
from dataplane.simulation.observer.exported_replica import ExportedReplica, StepObservers
from dataplane.simulation.observer.exporter import EngineExporter, FamilyFilter
from dataplane.simulation.observer.lines import Logged, Scraped, Seen
from dataplane.simulation.observer.observation import Observation
from dataplane.simulation.step_log import StepLog
from dataplane.simulation.timeline import Timeline

ANCHOR_UNIX = 1_790_000_000.0
COST = LinearCost(iteration=0.02, per_prompt_token=0.0002, per_decode_step=0.001)


def small_config(**changes: object) -> SchedulerConfig:
    values = {
        "max_num_seqs": 8,
        "max_num_batched_tokens": 256,
        "max_model_len": 512,
        "num_blocks": 40,
        "block_size": 16,
        **changes,
    }
    return SchedulerConfig(**values)  # type: ignore[arg-type]


class ObservedRun:
    """One replica, one exporter, one scraper; everything that was seen is in `seen`."""

    def __init__(
        self,
        dialect: Dialect,
        config: SchedulerConfig | None = None,
        *,
        cost: CostModel = COST,
        every: float = 1.0,
        until: float = 30.0,
        filters: ReadableSequence[FamilyFilter] = (),
        faults: ReadableSequence[Fault] = (),
    ) -> None:
        plan = FaultPlan(faults)
        self.timeline = Timeline()
        self.seen: list[Seen] = []
        self.until = until
        self.exporter = EngineExporter(
            self.timeline,
            dialect,
            EngineIdentity(replica_id="r-1"),
            self.seen.append,
            anchor_unix=ANCHOR_UNIX,
            filters=(*filters, *plan.metrics("r-1")),
        )
        self.log = StepLog(self.timeline)
        self.scheduler = Scheduler(plan.bounds("r-1", config or small_config(), 0.0))
        self.exporter.started(self.scheduler)
        self.replica = ExportedReplica(
            self.timeline,
            self.scheduler,
            plan.cost("r-1", cost, self.timeline),
            self.exporter,
            StepObservers(self.log, self),
        )
        self.memory = plan.memory("r-1", self.timeline, self.scheduler, self)
        for at in plan.hang_changes("r-1"):
            is_hung = plan.is_hung("r-1", at)
            self.timeline.at(at, self.replica.stall if is_hung else self.replica.resume)
        self.sequences: list[Sequence] = []
        self.arrived_at: dict[str, float] = {}
        Observation(
            self.timeline, [self.exporter], self.seen.append, every_seconds=every, until=until
        ).start()

    def submit_at(
        self, at: float, num_prompt: int, num_output: int, *, limit: int = 128
    ) -> Sequence:
        number = len(self.sequences)
        sequence = Sequence(
            request_id=f"q-{number}",
            sequence_id=number,
            prompt_token_ids=range(1000 * number, 1000 * number + num_prompt),
            max_output_tokens=limit,
            script=range(num_output),
        )
        self.sequences.append(sequence)
        self.arrived_at[sequence.request_id] = at
        self.timeline.at(at, lambda: self._submit(sequence))
        return sequence

    def submit_many(self, num_sequences: int, *, seed: int = 7, over: float = 10.0) -> None:
        draw = random.Random(seed)
        for _ in range(num_sequences):
            at = draw.uniform(0, over)
            self.submit_at(at, draw.randint(1, 120), draw.randint(1, 128))

    def cancel_at(self, at: float, sequence: Sequence) -> None:
        self.timeline.at(at, lambda: self._cancel(sequence))

    def run(self) -> "ObservedRun":
        self.timeline.run(self.until)
        return self

    @property
    def scraped(self) -> list[Scraped]:
        return [each for each in self.seen if isinstance(each, Scraped)]

    @property
    def logged(self) -> list[str]:
        return [
            line for each in self.seen if isinstance(each, Logged) for line in each.text.split("\n")
        ]

    # The process whose memory it is, and who hears of every step.

    def wake(self) -> None:
        self.replica.wake()

    def run_out_of_memory(self, num_wanted: int) -> None:
        self.replica.halt()
        self.exporter.ran_out_of_memory(num_wanted)

    def step_began(self, plan: StepPlan) -> None:
        pass

    def step_ended(self, plan: StepPlan, complete: Iterable[Sequence]) -> None:
        if self.memory is not None:
            self.memory.step_ended()

    def cancelled(self, sequence: Sequence, asked_at: float) -> None:
        if self.memory is not None and self.memory.cancelled(sequence):
            self.exporter.leaked(sequence)

    def _submit(self, sequence: Sequence) -> None:
        self.replica.submit(sequence)

    def _cancel(self, sequence: Sequence) -> None:
        self.replica.cancel(sequence.sequence_id)
