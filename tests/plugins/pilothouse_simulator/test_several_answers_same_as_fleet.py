"""Requests of several answers take the same steps in the plugin as on a replica of a simulated
fleet: followers begin alike, share alike, and end alike when their request is cancelled."""

from dataclasses import dataclass
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.engine import EngineRequest
from dataplane.policy import AdmissionPolicyTerms, ClassPolicy
from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.simulation.call import Call, Caller
from dataplane.simulation.clients import ClientBehaviour
from dataplane.simulation.fleet import Fleet
from dataplane.simulation.fleet_replica import ReplicaSpec
from dataplane.simulation.fleet_scenario import FleetScenario
from dataplane.simulation.gateway_bounds import GatewayBounds
from pilothouse_simulator.answer import plan_answer
from tests.plugins.pilothouse_simulator.test_same_as_replica import (
    COST,
    LENGTHS,
    Cancel,
    Commands,
    Step,
    WrittenDown,
    make_bounds,
    run_in_the_plugin,
)
from tests.plugins.pilothouse_simulator.virtual_core import END_ID, VOCABULARY, make_request


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, and when its client leaves."""

    at: float
    request: EngineRequest
    leaves_after: float | None

    def answer(self, index: int) -> range:
        """The tokens that the plugin would select. They are no range, and serve as one."""
        sampling, prompt = self.request.sampling, self.request.prompt_token_ids
        answer = plan_answer(sampling, sampling.seed or 0, index, prompt, LENGTHS)
        most = sampling.max_output_tokens
        length = most if answer.end_at is None else min(most, answer.end_at + 1)
        tokens = [answer.token_at(place, VOCABULARY.words, END_ID) for place in range(length)]
        return cast("range", tokens)

    def call(self) -> Call:
        client = ClientBehaviour(answer_within=self.leaves_after)
        first, *further = map(self.answer, range(self.request.sampling.num_sequences))
        return Call(
            Caller(tenant="default", client=client, headers={}),
            self.request.prompt_token_ids,
            first,
            self.request.sampling.max_output_tokens,
            further_answers=tuple(further),
        )


def ask(requests: list[tuple[int, int, int, int, int | None]]) -> list[Asked]:
    """(milliseconds since the last, prompt tokens, limit, answers, milliseconds it waits)."""
    asked, now = list[Asked](), 0.0
    for number, (gap_ms, num_prompt_tokens, limit, num_sequences, leaves_ms) in enumerate(requests):
        now += gap_ms / 1000
        request = make_request(
            f"{number}",
            tuple(1 + token // 5 for token in range(num_prompt_tokens)),
            isolation_key="default",
            max_output_tokens=limit,
            seed=number,
            num_sequences=num_sequences,
        )
        asked.append(Asked(now, request, None if leaves_ms is None else leaves_ms / 1000))
    return asked


def run_in_a_fleet(asked: list[Asked], bounds: SchedulerConfig) -> list[Step]:
    replica = ReplicaSpec(replica_id="replica-0", scheduler=bounds, cost=COST)
    fleet = Fleet(
        FleetScenario(
            name="one",
            seed=1,
            duration=1000,
            replicas=(replica,),
            policy=AdmissionPolicyTerms(revision="one@1", classes=(ClassPolicy(name="all"),)),
            bounds=GatewayBounds(surplus_slots=1000),  # nobody waits in the gateway
        )
    )
    cost = WrittenDown(COST, fleet.timeline)
    fleet.replicas["replica-0"].set_cost(cost)
    fleet.begin()
    for each in asked:
        fleet.timeline.run(until=each.at)
        fleet.put_call(each.call())
    fleet.run()
    fleet.check_integrity()
    return cost.steps


def commands_of(asked: list[Asked]) -> Commands:
    commands: Commands = [(each.at, each.request) for each in asked]
    for each in asked:
        if each.leaves_after is not None:
            commands.append((each.at + each.leaves_after, Cancel(each.request.request_id)))
    return sorted(commands, key=lambda command: command[0])


@settings(max_examples=60, deadline=None)
@given(
    requests=st.lists(
        st.tuples(
            st.integers(1, 30),
            st.integers(1, 24),
            st.integers(1, 24),
            st.integers(1, 4),
            st.none() | st.integers(0, 200),
        ),
        min_size=1,
        max_size=8,
    ),
    num_slots=st.integers(1, 6),
    num_blocks=st.integers(6, 60),
    prefill=st.integers(1, 16),
)
def test_any_requests_of_several_answers_take_the_same_steps(
    requests: list[tuple[int, int, int, int, int | None]],
    num_slots: int,
    num_blocks: int,
    prefill: int,
) -> None:
    asked = ask(requests)
    bounds = make_bounds(num_slots, num_blocks, prefill)
    steps, _ = run_in_the_plugin(commands_of(asked), bounds)
    assert run_in_a_fleet(asked, bounds) == steps


def test_sharing_preemption_and_cancels_are_among_what_is_the_same() -> None:
    asked = ask([(5, 9, 20, 3, None), (5, 9, 20, 4, None), (5, 9, 20, 2, 60)])
    bounds = make_bounds(num_slots=8, num_blocks=20, prefill=8)
    steps, _ = run_in_the_plugin(commands_of(asked), bounds)
    assert run_in_a_fleet(asked, bounds) == steps
    assert any(num_cached for step in steps for *_, num_cached in step.chunks)
    assert any(step.preempted for step in steps)
