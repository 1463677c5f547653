"""What the memory ledger promises and what a step leaves behind, seen in a simulated replica."""

from collections.abc import Iterable

import pytest

from dataplane.ledger import GIB, MemoryLedger, ModelShape, weights_bytes
from dataplane.scheduling.scheduler import Scheduler, SchedulerConfig
from dataplane.scheduling.sequence import Sequence
from dataplane.scheduling.step import Blocker, StepPlan
from dataplane.simulation.cost import LinearCost
from dataplane.simulation.replica import SimulatedReplica
from dataplane.simulation.timeline import Timeline
from tests.dataplane.simulation.golden_cases import load_golden
from tests.dataplane.simulation.scripted_sequence import submit_all

LEDGER = load_golden("ledger.yaml")
KV_STEPS = load_golden("lifecycle.yaml")["kv_after_each_step"]
BLOCK_SIZE = 16


class Watch:
    """Keeps what is told between steps."""

    def __init__(self) -> None:
        self.most_active = 0
        self.num_preempted = 0
        self.deferred_on: set[Blocker] = set()
        self.num_computed: list[int] = []

    def step_began(self, plan: StepPlan) -> None:
        self.most_active = max(self.most_active, len(plan.chunks))
        self.num_preempted += len(plan.preempted)
        if plan.deferred_on is not None:
            self.deferred_on.add(plan.deferred_on)

    def step_ended(self, plan: StepPlan, complete: Iterable[Sequence]) -> None:
        self.num_computed.append(plan.chunks[0].sequence.num_computed_tokens)

    def cancelled(self, sequence: Sequence, asked_at: float) -> None:
        raise AssertionError("nobody cancels here")


def run(num_blocks: int, lengths: Iterable[tuple[int, int]]) -> Watch:
    """Sequences of (prompt, output) tokens, all there at time zero; only blocks bind."""
    timeline, watch = Timeline(), Watch()
    scheduler = Scheduler(
        SchedulerConfig(
            max_num_seqs=256,
            max_num_batched_tokens=2_000_000,
            max_model_len=32_768,
            num_blocks=num_blocks,
            block_size=BLOCK_SIZE,
            is_prefix_caching=False,
        )
    )
    cost = LinearCost(iteration=1, per_prompt_token=0, per_decode_step=0)
    replica = SimulatedReplica(timeline, scheduler, cost, watch)
    submit_all(replica, lengths)
    timeline.run()
    scheduler.check_integrity()
    assert not scheduler.has_work
    return watch


def teaching_ledger(kv_bytes: int = 2) -> MemoryLedger:
    given = LEDGER["teaching_7b"]["given"]
    shape = ModelShape(
        num_layers=given["layers"],
        num_kv_heads=given["kv_heads"],
        head_dim=given["head_dim"],
        bytes_per_kv_element=kv_bytes,
    )
    return MemoryLedger(
        device_bytes=given["device_gib"] * GIB,
        weights_bytes=weights_bytes(given["parameters"], given["bytes_per_parameter"]),
        workspace_bytes=int(given["runtime_peak_gib"] * GIB),
        reserve_bytes=int(given["safety_reserve_gib"] * GIB),
        kv_bytes_per_token=shape.kv_bytes_per_token(),
        block_size=BLOCK_SIZE,
    )


@pytest.mark.parametrize(
    ("kv_bytes", "ceiling"),
    [
        (2, LEDGER["teaching_7b"]["expect"]["memory_ceiling_requests"]),
        (1, LEDGER["variants_of_teaching_7b"]["memory_ceiling_requests"]["kv_int8"]),
    ],
)
def test_as_many_run_at_once_as_the_ledger_has_room_for(kv_bytes: int, ceiling: int) -> None:
    num_tokens = LEDGER["teaching_7b"]["given"]["tokens_per_request"]
    ledger = teaching_ledger(kv_bytes)
    assert ledger.max_resident_requests(num_tokens) == ceiling

    # One more than fit, each at its whole length at once.
    watch = run(ledger.num_blocks_that_fit, [(num_tokens - 1, 1)] * (ceiling + 1))

    assert watch.most_active == ceiling
    assert watch.num_preempted == 0
    assert watch.deferred_on == {Blocker.BLOCKS}


@pytest.mark.parametrize(("key", "all_fit"), [("fits", True), ("over", False)])
def test_contexts_that_grow_fit_until_one_too_many_is_long(key: str, all_fit: bool) -> None:
    given, expected = LEDGER["growing_contexts"]["given"], LEDGER["growing_contexts"]["expect"]
    num_long = {
        "fits": expected["long_count_that_still_fits"],
        "over": expected["first_long_count_over_budget"],
    }[key]
    block_bytes = BLOCK_SIZE * given["kv_bytes_per_token"]
    num_short = given["active"] - num_long
    grows_by = 96  # all of them, after prompts that are that much shorter
    lengths = [(given["short_tokens"] - grows_by, grows_by)] * num_short
    lengths += [(given["long_tokens"] - grows_by, grows_by)] * num_long

    watch = run(given["budget_gib"] * GIB // block_bytes, lengths)

    did_fit = watch.most_active == given["active"] and not watch.num_preempted
    assert did_fit is all_fit
    assert (Blocker.BLOCKS in watch.deferred_on) is not all_fit


def test_what_is_cached_after_each_step_is_everything_but_the_selected_token() -> None:
    steps = KV_STEPS["steps"]

    watch = run(8, [(len(KV_STEPS["prompt"]), len(steps))])

    assert watch.num_computed == [step["cached_after"] for step in steps]
