"""The core that engines of steps share, over a runner that counts: what it asks of a runner, and
what it refuses. What requests live through is tried on each engine (see `any_requests`)."""

from collections.abc import Mapping, Sequence

import pytest

from dataplane.engine import EngineRequest, EngineUse, SamplingParams
from dataplane.host.core import CoreEvent
from dataplane.host.runner import LiveChunk, Selected
from dataplane.host.stepped_core import CoreStateError, SteppedCore
from dataplane.lifecycle import Disposition, EventKind
from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.scheduling.sequence import Sequence as EngineSequence
from dataplane.scheduling.step import StepPlan

END_ID = 9


class Counting:
    """Selects 0, 1, 2, ... for each sequence; nine is the end."""

    vocab_size = 10
    end_token_ids = frozenset({END_ID})
    parameters = frozenset({"top_k"})
    ledger_lines: Mapping[str, int] | None = None

    def __init__(self) -> None:
        self.num_warm_ups = 0
        self.seeds: list[int] = []
        self.fails = False
        self.now = 0.0
        self.step_seconds = 0.0

    def warm_up(self) -> None:
        self.num_warm_ups += 1

    def begin(self, sequence: EngineSequence, request: EngineRequest, seed: int) -> int:
        self.seeds.append(seed)
        return sequence.index

    def run(self, plan: StepPlan, live: Sequence[LiveChunk[int]]) -> Mapping[int, Selected]:
        if self.fails:
            raise MemoryError("no memory for this step")
        self.now += self.step_seconds
        for each in live:
            assert each.state == each.chunk.sequence.index
        return {
            each.chunk.sequence.sequence_id: Selected(
                token_id=each.chunk.sequence.num_output_tokens
            )
            for each in live
            if each.chunk.selects_token
        }


class CountingCore(SteppedCore[int]):
    """Its steps take no time, unless its runner is told so."""

    def __init__(self, bounds: SchedulerConfig | None = None, shares_prefixes: bool = True) -> None:
        self.num_seeds = 0
        self._bounds = bounds or make_bounds()
        super().__init__(
            "counting",
            shares_prefixes=shares_prefixes,
            clock=lambda: self.runner.now,
            draw_seed=self.next_seed,
        )
        self.runner = Counting()

    def next_seed(self) -> int:
        self.num_seeds += 1
        return self.num_seeds

    def load(self) -> None:
        self.begin_with(self.runner, self._bounds)


def make_bounds(is_prefix_caching: bool = True) -> SchedulerConfig:
    return SchedulerConfig(
        max_num_seqs=4,
        max_num_batched_tokens=16,
        max_model_len=32,
        num_blocks=32,
        block_size=2,
        is_prefix_caching=is_prefix_caching,
    )


@pytest.fixture
def core() -> CountingCore:
    core = CountingCore()
    core.load()
    return core


def make_request(request_id: str = "r", **sampling: object) -> EngineRequest:
    params = {"max_output_tokens": 20, **sampling}
    return EngineRequest(
        request_id=request_id,
        attempt=0,
        endpoint="/v1/completions",
        prompt_token_ids=(1, 2, 3),
        sampling=SamplingParams(**params),  # type: ignore[arg-type]
    )


def serve(core: CountingCore) -> list[CoreEvent]:
    events = []
    while core.has_work:
        events += core.schedule()
        events += core.run()
        core.check_integrity()
    return events


def test_an_end_token_ends_an_answer_unless_it_is_ignored(core: CountingCore) -> None:
    core.add(make_request("ends"))
    core.add(make_request("goes-on", max_output_tokens=10, ignore_eos=True))
    ends = {e.request_id: e.disposition for e in serve(core) if e.kind is EventKind.FINISHED}
    assert ends == {"ends": Disposition.STOP, "goes-on": Disposition.LENGTH}


def test_all_sequences_of_a_request_get_its_seed_or_one_that_is_drawn(core: CountingCore) -> None:
    core.add(make_request("named", seed=77, num_sequences=2))
    core.add(make_request("unnamed", num_sequences=2))
    serve(core)
    assert sorted(core.runner.seeds) == [1, 1, 77, 77]
    assert core.num_seeds == 1


def test_what_the_core_honours_is_added_to_what_the_runner_does(core: CountingCore) -> None:
    assert core.capabilities.parameters == {"ignore_eos", "n", "top_k"}


def test_a_paused_request_keeps_what_it_holds_and_is_in_no_step(core: CountingCore) -> None:
    core.add(make_request("paused", num_sequences=2, ignore_eos=True))
    core.pause("paused", is_paused=True)  # before its prompt is computed, let alone followed
    core.schedule()
    first = core.run()
    core.add(make_request("other", max_output_tokens=4))
    events = []
    for _ in range(8):
        events += core.schedule() + core.run()
        core.check_integrity()
    selected = [e.request_id for e in events if e.token_ids]
    assert (selected.count("other"), selected.count("paused")) == (4, 1)  # the follower's first
    assert core.stats().num_running == 2
    assert "clients" in (core.stats().blocked_on or "")
    core.pause("paused", is_paused=False)
    rest = serve(core)
    assert sum(len(e.token_ids) for e in [*first, *events, *rest]) == 4 + 2 * 20


def test_a_step_that_failed_is_run_again_as_it_was_planned(core: CountingCore) -> None:
    core.add(make_request(max_output_tokens=2))
    core.schedule()
    core.runner.fails = True
    with pytest.raises(MemoryError):
        core.run()
    core.runner.fails = False
    assert core.schedule() == []
    tokens = [token_id for event in serve(core) for token_id in event.token_ids]
    assert tokens == [0, 1]


def used_by(events: list[CoreEvent]) -> dict[str, EngineUse | None]:
    return {event.request_id: event.used for event in events if event.kind is EventKind.RELEASED}


def test_a_step_is_shared_by_what_it_computes_for_each_and_blocks_count_while_they_are_held(
    core: CountingCore,
) -> None:
    core.runner.step_seconds = 1.0
    core.add(make_request("first", max_output_tokens=3))
    events = core.schedule() + core.run()  # three prompt tokens, in two blocks of two
    core.add(make_request("second", max_output_tokens=1))
    events += core.schedule() + core.run()  # one token beside a prompt of which two are cached
    core.runner.now += 4.0  # nobody asks for a step for a while
    events += serve(core)
    used = used_by(events)
    assert used["first"] == EngineUse(engine_seconds=1 + 1 / 2 + 1, kv_block_seconds=2 + 2 + 8 + 3)
    assert used["second"] == EngineUse(engine_seconds=1 / 2, kv_block_seconds=2 + 8)


def test_what_requests_took_adds_up_to_the_steps_and_nothing_is_counted_without_one(
    core: CountingCore,
) -> None:
    core.runner.step_seconds = 0.25
    for number in range(7):  # more than there are slots, of one and of several answers
        core.add(make_request(f"r{number}", num_sequences=1 + number % 3, max_output_tokens=6))
    core.add(make_request("leaves"))
    core.finish("leaves", Disposition.CANCELLED)
    used = used_by(serve(core))
    assert used.pop("leaves") == EngineUse(engine_seconds=0.0, kv_block_seconds=0.0)
    assert len(used) == 7
    seconds = sum(each.engine_seconds for each in used.values() if each is not None)
    assert seconds == pytest.approx(core.runner.now)


def test_nothing_can_be_asked_before_it_is_loaded() -> None:
    with pytest.raises(CoreStateError, match=r"call load\(\) first"):
        CountingCore().add(make_request())


def test_it_warms_up_before_the_first_request_alone(core: CountingCore) -> None:
    core.warm_up()
    assert core.runner.num_warm_ups == 1
    core.add(make_request())
    with pytest.raises(CoreStateError, match="blocks that requests may own"):
        core.warm_up()


def test_an_id_that_is_not_released_is_refused(core: CountingCore) -> None:
    core.add(make_request())
    with pytest.raises(CoreStateError, match="use a new id"):
        core.add(make_request())


def test_bounds_without_reuse_are_refused_because_sequences_share_prompts() -> None:
    core = CountingCore()
    with pytest.raises(CoreStateError, match="is_prefix_caching"):
        core.begin_with(core.runner, make_bounds(is_prefix_caching=False))


def test_where_prefixes_are_not_shared_nobody_is_told_of_them() -> None:
    alone = CountingCore(shares_prefixes=False)
    alone.load()
    assert alone.cached_prefixes is None
