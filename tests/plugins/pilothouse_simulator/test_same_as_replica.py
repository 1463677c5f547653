"""The plugin and the simulation run one engine: the same requests take the same steps, at the same
times, with the same preemptions and prefix hits, and those that are cancelled end alike."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.engine import EngineRequest
from dataplane.host.core import CoreEvent
from dataplane.lifecycle import Disposition, EventKind
from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.scheduling.scheduler import Scheduler
from dataplane.scheduling.sequence import Sequence
from dataplane.scheduling.step import StepPlan
from dataplane.simulation.cost import CostModel, LinearCost
from dataplane.simulation.distributions import LogNormal
from dataplane.simulation.replica import SimulatedReplica
from dataplane.simulation.timeline import Timeline
from pilothouse_simulator.answer import plan_answer
from pilothouse_simulator.core import SimulatorCore
from pilothouse_simulator.machine import Machine
from pilothouse_simulator.pace import Pace
from pilothouse_simulator.runner import SimulatedRunner
from pilothouse_simulator.settings import StartSeconds, parse_settings
from tests.plugins.pilothouse_simulator.virtual_core import (
    END_ID,
    VOCABULARY,
    VirtualWaiting,
    make_request,
)

COST = LinearCost(
    iteration=0.005,
    per_prompt_token=0.0001,
    per_decode_step=0.0007,
    per_reread_token=0.00001,
    per_context_token=0.000003,
)
LENGTHS = LogNormal(median=8.0, sigma=0.8)


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did, and when it began."""

    began_at: float
    chunks: tuple[tuple[str, int, int, bool, int], ...]
    """(request, start, tokens, selects, found in the prefix cache)"""
    admitted: tuple[str, ...]
    preempted: tuple[str, ...]
    resumed: tuple[str, ...]


class WrittenDown:
    """A cost that keeps what it was asked for."""

    def __init__(self, cost: CostModel, now: "VirtualWaiting | Timeline") -> None:
        self.steps: list[Step] = []
        self._cost = cost
        self._clock = now

    def step_time(self, plan: StepPlan) -> float:
        now = self._clock.now
        self.steps.append(
            Step(
                began_at=now() if callable(now) else now,
                chunks=tuple(
                    (
                        chunk.sequence.request_id,
                        chunk.start,
                        chunk.num_tokens,
                        chunk.selects_token,
                        chunk.num_cached_tokens,
                    )
                    for chunk in plan.chunks
                ),
                admitted=_ids(plan.admitted),
                preempted=_ids(plan.preempted),
                resumed=_ids(plan.resumed),
            )
        )
        return self._cost.step_time(plan)


def _ids(sequences: Iterable[Sequence]) -> tuple[str, ...]:
    return tuple(sequence.request_id for sequence in sequences)


@dataclass(frozen=True, slots=True)
class Cancel:
    """Somebody wants a request to end, which may have ended, or never have begun."""

    request_id: str


Command = EngineRequest | Cancel
Commands = list[tuple[float, Command]]
"""In order of time."""
Outcome = tuple[list[Step], dict[str, float]]


def run_in_the_plugin(commands: Commands, bounds: SchedulerConfig) -> Outcome:
    """As the host's loop does: what came during a step is in the next one."""
    waiting = VirtualWaiting()
    cost = WrittenDown(COST, waiting)
    core = SimulatorCore("nowhere", parse_settings({}), waiting, "r-1")
    machine = Machine(cost, StartSeconds())
    core.begin_with(SimulatedRunner(VOCABULARY, machine, LENGTHS, Pace(waiting, 1.0), None), bounds)
    to_come, told = list(commands), list[CoreEvent]()
    while to_come or core.has_work:
        if not core.has_work:
            waiting.until(to_come[0][0])
        while to_come and to_come[0][0] <= waiting.now():
            told += _give(core, to_come.pop(0)[1])
        told += core.schedule()
        told += core.run()
        core.check_integrity()
    return cost.steps, {e.request_id: e.at for e in told if e.kind is EventKind.FINISHED}


def _give(core: SimulatorCore, command: Command) -> list[CoreEvent]:
    if isinstance(command, Cancel):
        return core.finish(command.request_id, Disposition.CANCELLED)
    return core.add(command)


class _Ends:
    """When sequences select their last token, are refused, or are ended early."""

    def __init__(self, timeline: Timeline) -> None:
        self.at: dict[str, float] = {}
        self._timeline = timeline

    def step_began(self, plan: StepPlan) -> None:
        for refusal in plan.refused:
            self.at[refusal.sequence.request_id] = self._timeline.now

    def step_ended(self, plan: StepPlan, complete: Iterable[Sequence]) -> None:
        for sequence in complete:
            self.at[sequence.request_id] = self._timeline.now

    def cancelled(self, sequence: Sequence, asked_at: float) -> None:
        self.at[sequence.request_id] = self._timeline.now


def run_in_virtual_time(commands: Commands, bounds: SchedulerConfig) -> Outcome:
    timeline = Timeline()
    cost, ends = WrittenDown(COST, timeline), _Ends(timeline)
    replica = SimulatedReplica(timeline, Scheduler(bounds), cost, ends)
    numbers: dict[str, int] = {}
    for at, command in commands:
        if isinstance(command, Cancel):
            timeline.at(at, partial(replica.cancel, numbers[command.request_id]))
        else:
            numbers[command.request_id] = len(numbers)
            sequence = _scripted(command, numbers[command.request_id])
            timeline.at(at, _submission(replica, sequence))
    timeline.run()
    return cost.steps, ends.at


def _submission(replica: SimulatedReplica, sequence: Sequence) -> Callable[[], None]:
    def submit() -> None:
        assert replica.submit(sequence) is None

    return submit


def _scripted(request: EngineRequest, sequence_id: int) -> Sequence:
    sampling = request.sampling
    answer = plan_answer(sampling, sampling.seed or 0, 0, request.prompt_token_ids, LENGTHS)
    most = sampling.max_output_tokens
    length = most if answer.end_at is None else min(most, answer.end_at + 1)
    return Sequence(
        request_id=request.request_id,
        sequence_id=sequence_id,
        prompt_token_ids=request.prompt_token_ids,
        max_output_tokens=most,
        isolation_key=request.isolation_key,
        script=[answer.token_at(index, VOCABULARY.words, END_ID) for index in range(length)],
    )


def make_bounds(num_slots: int, num_blocks: int, prefill: int) -> SchedulerConfig:
    return SchedulerConfig(
        max_num_seqs=num_slots,
        max_num_batched_tokens=num_slots + prefill,
        max_model_len=64,
        num_blocks=num_blocks,
        block_size=2,
        max_prefill_tokens_per_step=prefill,
    )


def make_commands(
    requests: Iterable[tuple[int, int, int, bool]], cancels: Iterable[tuple[int, int]] = ()
) -> Commands:
    """Requests as (milliseconds since the last, prompt tokens, limit, whether it ignores the end),
    cancels as (which one, taken round, and milliseconds after its arrival)."""
    arrivals, now = list[tuple[float, EngineRequest]](), 0.0
    for index, (gap_ms, num_prompt_tokens, limit, ignore_eos) in enumerate(requests):
        now += gap_ms / 1000
        prompt = tuple(1 + token // 5 for token in range(num_prompt_tokens))  # many begin alike
        request = make_request(
            f"r{index}", prompt, max_output_tokens=limit, seed=index, ignore_eos=ignore_eos
        )
        arrivals.append((now, request))
    commands: Commands = list(arrivals)
    for which, delay_ms in cancels:
        arrived_at, request = arrivals[which % len(arrivals)]
        commands.append((arrived_at + delay_ms / 1000, Cancel(request.request_id)))
    return sorted(commands, key=lambda command: command[0])  # of one moment: arrivals first


@settings(max_examples=60, deadline=None)
@given(
    requests=st.lists(
        st.tuples(st.integers(0, 30), st.integers(1, 24), st.integers(1, 24), st.booleans()),
        min_size=1,
        max_size=14,
    ),
    cancels=st.lists(st.tuples(st.integers(0, 13), st.integers(0, 200)), max_size=8),
    num_slots=st.integers(1, 6),
    num_blocks=st.integers(12, 40),
    prefill=st.integers(1, 16),
)
def test_any_requests_take_the_same_steps_at_the_same_times(
    requests: list[tuple[int, int, int, bool]],
    cancels: list[tuple[int, int]],
    num_slots: int,
    num_blocks: int,
    prefill: int,
) -> None:
    commands = make_commands(requests, cancels)
    bounds = make_bounds(num_slots, num_blocks, prefill)
    assert run_in_the_plugin(commands, bounds) == run_in_virtual_time(commands, bounds)


def test_preemptions_and_prefix_hits_are_among_what_is_the_same() -> None:
    commands = make_commands([(7, 9, 20, True)] * 10)
    bounds = make_bounds(num_slots=6, num_blocks=24, prefill=8)
    steps, ends = run_in_the_plugin(commands, bounds)
    assert (steps, ends) == run_in_virtual_time(commands, bounds)
    assert any(step.preempted for step in steps)
    assert any(step.resumed for step in steps)
    assert any(num_cached for step in steps for *_, num_cached in step.chunks)
    assert len(ends) == 10


def test_a_cancel_under_way_is_taken_behind_the_step_that_runs() -> None:
    commands = make_commands([(0, 4, 20, True), (1, 4, 20, True)], cancels=[(0, 40), (1, 3)])
    bounds = make_bounds(num_slots=1, num_blocks=24, prefill=8)
    steps, ends = run_in_the_plugin(commands, bounds)
    assert (steps, ends) == run_in_virtual_time(commands, bounds)
    borders = [step.began_at for step in steps]
    assert borders[-1] < 0.040 < ends["r0"], "it had begun, and its token is selected still"
    assert 0.004 < ends["r1"] == borders[1], "it waited, and the step of the other had to end"
