"""Requests that ask for several answers (`n > 1`): their sequences share a prompt, and all of them
are one request to its gateway."""

import pytest

from dataplane.contract_terms import ContractTerms, Objective, ObjectiveSignal
from dataplane.latency import Boundary
from dataplane.lifecycle import Delivery, Disposition, EventKind
from dataplane.policy import ClassPolicy, ContractPolicy
from dataplane.simulation.arrivals import Regular
from dataplane.simulation.call import Call, Caller
from dataplane.simulation.clients import PATIENT, ClientBehaviour
from dataplane.simulation.distributions import Constant, LogNormal
from dataplane.simulation.fleet import Fleet
from dataplane.simulation.traffic import TrafficSpec
from tests.dataplane.simulation.small_fleet import call, in_order, small_fleet


def several(
    *lengths: int,
    num_prompt_tokens: int = 9,
    client: ClientBehaviour = PATIENT,
    max_tokens: int | None = None,
    is_stream: bool = True,
) -> Call:
    """A call with an answer of each of these lengths, none of which is like another."""
    caller = Caller(tenant="default", client=client, headers={}, is_stream=is_stream)
    first, *further = [
        range(1000 * number, 1000 * number + length)
        for number, length in enumerate(lengths, start=1)
    ]
    return Call(caller, range(num_prompt_tokens), first, max_tokens, further_answers=tuple(further))


def test_followers_begin_when_the_prompt_is_computed_and_the_last_answer_ends_the_request() -> None:
    fleet, records = small_fleet(is_prefix_caching=True)
    fleet.put_call(several(2, 4, 1))
    fleet.run()
    fleet.check_integrity()
    [record] = records.take()
    told = {
        kind: [(e.at, e.sequence) for e in record.events if e.kind is kind]
        for kind in (EventKind.FIRST_TOKEN, EventKind.FINISHED, EventKind.SCHEDULED)
    }
    assert told[EventKind.SCHEDULED] == [(0, 0)]
    assert told[EventKind.FIRST_TOKEN] == [(1, 0), (2, 1), (2, 2)]
    assert told[EventKind.FINISHED] == [(2, 0), (2, 2), (5, 1)]
    assert record.events[-1].kind is EventKind.RELEASED
    assert record.events[-1].at == 5
    assert record.num_output_tokens == 2 + 4 + 1
    assert record.num_cached_tokens == 0, "what the followers found is no prompt that was spared"
    assert record.delivery is Delivery.COMPLETE
    assert fleet.replicas["replica-0"].counts().num_output_tokens == 7
    assert fleet.replicas["replica-0"].counts().num_prefix_hit_tokens == 2 * 8
    assert fleet.replicas["replica-0"].counts().num_requests == 1


def test_a_record_and_a_row_say_the_same_of_several_answers() -> None:
    fleet, records = small_fleet(is_prefix_caching=True)
    fleet.put_call(several(2, 4, 7))
    fleet.put_call(several(3, 2, is_stream=False))
    fleet.run()
    columns = fleet.results.columns
    assert columns is not None
    for row, record in enumerate(sorted(records.take(), key=lambda each: each.events[-1].at)):
        server = record.latencies.server
        assert columns.ttft[row] == server.ttft
        assert columns.e2e[row] == server.e2e
        assert columns.tpot[row] == server.tpot or server.tpot is None
        assert columns.num_output_tokens[row] == record.num_output_tokens


@pytest.mark.parametrize("boundary", [Boundary.SERVER, Boundary.ENGINE])
def test_the_pace_of_several_answers_is_judged_alike_with_and_without_a_record(
    boundary: Boundary,
) -> None:
    terms = ContractTerms(
        boundary=boundary,
        objectives=(Objective(signal=ObjectiveSignal.TPOT, target=0.9, at_most_seconds=1.2),),
    )
    contract = ContractPolicy(revision="c@1", terms_by_class={"all": terms})
    recorded, records = small_fleet(is_prefix_caching=True, contract=contract)
    unrecorded = Fleet(recorded.scenario)
    for fleet in (recorded, unrecorded):
        fleet.begin()
        fleet.put_call(several(5, 4, 2))
        fleet.put_call(several(9, 1))
        fleet.run()
    verdicts = [r.judgement and r.judgement.in_contract for r in in_order(records)]
    assert verdicts == [True, True]
    assert unrecorded.results.of_class("all") == recorded.results.of_class("all")


def test_slots_are_taken_together_and_nobody_behind_takes_one_of_them() -> None:
    fleet, records = small_fleet(max_num_seqs=3, max_active=3, is_prefix_caching=True)
    fleet.put_call(call(num_output_tokens=2))
    fleet.put_call(several(1, 1, 1))
    fleet.put_call(call(num_output_tokens=1))
    fleet.run()
    _, group, last = in_order(records)
    assert group.latencies.queue_time == 2, "two free slots are not three"
    assert last.latencies.queue_time == 4


def test_a_request_of_several_waits_though_a_slot_is_free() -> None:
    classes = [ClassPolicy(name="all", max_queue=0)]
    fleet, records = small_fleet(max_num_seqs=3, max_active=3, classes=classes)
    fleet.put_call(call())
    fleet.put_call(several(1, 1, 1))
    fleet.run()
    assert [r.disposition for r in in_order(records)] == ["stop", "rejected"]


def test_more_answers_than_a_replica_may_run_at_once_are_invalid() -> None:
    fleet, records = small_fleet(max_active=2)
    fleet.put_call(several(1, 1, 1))
    fleet.put_call(several(*[1] * 17))
    fleet.run()
    by_policy, by_bound = in_order(records)
    assert by_policy.disposition is by_bound.disposition is Disposition.INVALID
    assert by_policy.status_code == 400


def test_each_answer_is_cut_for_itself_and_the_last_says_how_the_request_ended() -> None:
    fleet, records = small_fleet(is_prefix_caching=True)
    fleet.put_call(several(2, 9, max_tokens=3))
    fleet.run()
    [record] = records.take()
    ends = [e.disposition for e in record.events if e.kind is EventKind.FINISHED]
    assert ends == [Disposition.STOP, Disposition.LENGTH]
    assert record.disposition is Disposition.LENGTH
    assert record.num_output_tokens == 5


@pytest.mark.parametrize(
    ("leaves_at", "num_output_tokens"),
    [
        pytest.param(0.5, 1, id="while the prompt is computed: followers are never scheduled"),
        pytest.param(1.5, 2 + 1 + 1, id="while the followers begin"),
        pytest.param(4.5, 2 + 4 + 4, id="when the first has ended"),
    ],
)
def test_a_client_that_leaves_ends_all_of_them(leaves_at: float, num_output_tokens: int) -> None:
    fleet, records = small_fleet(is_prefix_caching=True)
    fleet.put_call(several(2, 20, 20, client=ClientBehaviour(answer_within=leaves_at)))
    fleet.put_call(call(num_output_tokens=30))
    fleet.run()
    fleet.check_integrity()
    left, other = in_order(records)
    assert left.disposition is Disposition.CANCELLED
    assert left.num_output_tokens == num_output_tokens
    assert left.events[-1].kind is EventKind.RELEASED
    assert left.events[-1].at == leaves_at + 0.5
    assert other.disposition is Disposition.STOP
    assert not fleet.replicas["replica-0"].requests()


def test_a_replica_that_dies_fails_all_of_them_once() -> None:
    fleet, records = small_fleet(is_prefix_caching=True)
    fleet.put_call(several(9, 9))
    fleet.timeline.at(3.5, lambda: fleet.replicas["replica-0"].kill("it was killed"))
    fleet.run()
    [record] = records.take()
    assert record.disposition is Disposition.ERROR
    assert record.num_output_tokens == 3 + 2


def test_a_replica_that_drains_waits_for_all_of_them() -> None:
    fleet, records = small_fleet(is_prefix_caching=True)
    fleet.put_call(several(1, 5))
    fleet.timeline.at(0.5, fleet.replicas["replica-0"].drain)
    fleet.run()
    [record] = records.take()
    assert record.disposition is Disposition.STOP
    assert [change.what for change in fleet.changes][-1] == "drained"
    assert fleet.changes[-1].at == 6


def test_asking_for_several_answers_changes_nothing_else_of_the_traffic() -> None:
    def lengths(num_sequences: Constant | None) -> list[tuple[float, int, int]]:
        traffic = TrafficSpec(
            name="chat",
            process=Regular(2.0),
            callers=[(Caller(tenant="default", client=PATIENT, headers={}), 1.0)],
            prompt=LogNormal(median=8, sigma=0.5),
            output=LogNormal(median=5, sigma=0.5),
            num_sequences=num_sequences,
        )
        fleet, _ = small_fleet(traffic=[traffic], duration=20, is_prefix_caching=True)
        seen: list[tuple[float, Call]] = []

        def see(at: float, made: Call) -> Call:
            seen.append((at, made))
            return made

        fleet.change_call.append(see)
        fleet.run()
        assert {made.num_sequences for _, made in seen} == {1 if num_sequences is None else 3}
        return [(at, len(made.prompt), len(made.answer)) for at, made in seen]

    assert lengths(None) == lengths(Constant(3))
