"""Change one variable and look: what the golden sweeps observe, a simulated replica shows."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from statistics import mean

import pytest

from dataplane.ledger import weights_bytes
from dataplane.scheduling.scheduler import Scheduler, SchedulerConfig
from dataplane.scheduling.sequence import Sequence
from dataplane.scheduling.step import Blocker, StepPlan
from dataplane.simulation.cost import CostModel, LinearCost
from dataplane.simulation.replica import SimulatedReplica
from dataplane.simulation.speculation import SpeculativeCost, SpeculativeRound
from dataplane.simulation.step_log import StepLog
from dataplane.simulation.timeline import Timeline
from tests.dataplane.simulation.golden_cases import load_golden

GOLDEN = {
    each["change"]: each["observe"] for each in load_golden("capacity.yaml")["controlled_sweeps"]
}
NUM_REQUESTS = 120
PLAIN = LinearCost(iteration=5, per_prompt_token=0.05, per_decode_step=0.5)  # ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is offered, and to what."""

    num_prompt: int = 128
    num_output: int = 32
    every_ms: float = 1_000
    slots: int = 8
    num_blocks: int = 1_000
    cost: CostModel = PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Means over all requests, ms."""

    ttft: float
    tpot: float
    completion: float
    queue: float
    completed_per_s: float
    block_ms: float
    num_blocked: int
    """Steps that preempted, or admitted nobody for want of blocks."""


class Watch(StepLog):
    """A log that also adds up what is held in memory, and who was kept out."""

    def __init__(self, timeline: Timeline, scheduler: Scheduler) -> None:
        super().__init__(timeline)
        self.block_ms: float = 0
        self.num_blocked = 0
        self._scheduler = scheduler

    def step_began(self, plan: StepPlan) -> None:
        super().step_began(plan)
        self.num_blocked += bool(plan.preempted) or plan.deferred_on is Blocker.BLOCKS

    def step_ended(self, plan: StepPlan, complete: Iterable[Sequence]) -> None:
        super().step_ended(plan, complete)
        step = self.steps[-1]
        self.block_ms += (step.end - step.start) * self._scheduler.stats.num_referenced_blocks


def offer(load: Load) -> Seen:
    timeline = Timeline()
    scheduler = Scheduler(
        SchedulerConfig(
            max_num_seqs=load.slots,
            max_num_batched_tokens=1024,
            max_model_len=4096,
            num_blocks=load.num_blocks,
            block_size=16,
            is_prefix_caching=False,
        )
    )
    watch = Watch(timeline, scheduler)
    replica = SimulatedReplica(timeline, scheduler, load.cost, watch)
    arrived_at = {f"r{number}": number * load.every_ms for number in range(NUM_REQUESTS)}
    for number, (name, at) in enumerate(arrived_at.items()):
        timeline.at(at, partial(replica.submit, sequence_of(load, number, name)))
    timeline.run()
    assert watch.finished_at.keys() == arrived_at.keys()
    firsts = {name: instants[0] for name, instants in watch.selected_at.items()}
    ends = watch.finished_at
    return Seen(
        ttft=mean(firsts[name] - at for name, at in arrived_at.items()),
        tpot=mean((ends[name] - firsts[name]) / (load.num_output - 1) for name in ends),
        completion=mean(ends[name] - at for name, at in arrived_at.items()),
        queue=mean(watch.admitted_at[name] - at for name, at in arrived_at.items()),
        completed_per_s=1000 * NUM_REQUESTS / max(ends.values()),
        block_ms=watch.block_ms,
        num_blocked=watch.num_blocked,
    )


def sequence_of(load: Load, number: int, name: str) -> Sequence:
    return Sequence(
        request_id=name,
        sequence_id=number,
        prompt_token_ids=range(load.num_prompt),
        max_output_tokens=load.num_output,
        script=range(load.num_output),
    )


BASE = Load()
BUSY = Load(every_ms=1)  # far more than it can do


def prompt_length_up() -> None:
    short, long = offer(BASE), offer(replace(BASE, num_prompt=1024))
    assert long.ttft > 3 * short.ttft
    assert long.tpot == pytest.approx(short.tpot)


def output_length_up() -> None:
    short, long = offer(BASE), offer(replace(BASE, num_output=128))
    assert long.completion > 3 * short.completion
    assert long.block_ms > 3 * short.block_ms


def offered_rate_up() -> None:
    light, heavy, flooded = (offer(replace(BASE, every_ms=ms)) for ms in (1_000, 10, 1))
    assert light.queue < heavy.queue < flooded.queue
    assert light.completed_per_s < heavy.completed_per_s
    assert flooded.completed_per_s == pytest.approx(heavy.completed_per_s, rel=0.1)


def active_sequences_up() -> None:
    few, many = offer(replace(BUSY, slots=2)), offer(replace(BUSY, slots=32))
    assert many.completed_per_s > 2 * few.completed_per_s
    assert many.tpot > 2 * few.tpot


def cache_budget_down() -> None:
    roomy, tight = offer(BUSY), offer(replace(BUSY, num_blocks=24))
    assert roomy.num_blocked == 0 < tight.num_blocked
    assert tight.completed_per_s < roomy.completed_per_s


def precision_lower() -> None:
    # Half the bytes are twice the blocks; nothing here was waiting for those.
    assert weights_bytes(7 * 10**9, 1) < weights_bytes(7 * 10**9, Fraction(2))
    assert offer(replace(BUSY, num_blocks=2_000)) == offer(BUSY)


def speculative_settings() -> None:
    dear = SpeculativeRound(draft_steps=4, draft_cost=0.5)
    rarely, often = (
        offer(replace(BASE, cost=SpeculativeCost(PLAIN, dear, share))) for share in (0.2, 0.6)
    )
    assert dear.expected_committed(0.6) > dear.expected_committed(0.2)
    assert often.tpot < rarely.tpot
    assert often.tpot > offer(BASE).tpot  # and still no gain over not drafting at all


SWEEPS: dict[str, Callable[[], None]] = {
    "prompt length up": prompt_length_up,
    "output length up": output_length_up,
    "offered rate up": offered_rate_up,
    "active sequences up": active_sequences_up,
    "cache budget down": cache_budget_down,
    "precision lower": precision_lower,
    "speculative settings": speculative_settings,
}


@pytest.mark.parametrize("change", GOLDEN, ids=lambda change: change.replace(" ", "_"))
def test_a_change_is_seen_where_the_literature_sees_it(change: str) -> None:
    SWEEPS[change]()
