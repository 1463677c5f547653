import dataclasses
from pathlib import Path

import pytest

from dataplane.contract_terms import ContractTerms, Objective, ObjectiveSignal
from dataplane.gateway.fleet import EXPIRE_SECONDS
from dataplane.gateway.settings import GatewaySettings
from dataplane.latency import Boundary
from dataplane.lifecycle import Delivery, Disposition, EventKind, Observability
from dataplane.policy import ClassPolicy, ContractPolicy
from dataplane.record import RequestRecord, decode_record, encode_record
from dataplane.simulation.clients import ClientBehaviour, Reading, Retries
from dataplane.simulation.cold_start import ColdStart
from dataplane.simulation.fleet import FleetError
from dataplane.simulation.fleet_replica import ReplicaState
from dataplane.simulation.gateway_bounds import GatewayBounds
from tests.dataplane.simulation.small_fleet import call, in_order, small_fleet


def test_a_simulated_gateway_keeps_the_bounds_of_a_real_one() -> None:
    simulated, real = GatewayBounds(), GatewaySettings(name="gateway-0", state_dir=Path())
    for name in (
        "unserved_seconds",
        "release_seconds",
        "write_seconds",
        "surplus_slots",
        "max_choices",
    ):
        assert getattr(simulated, name) == getattr(real, name)
    assert simulated.expire_seconds == EXPIRE_SECONDS


def kinds(record: RequestRecord) -> list[str]:
    return [str(event.kind) for event in record.events]


def test_a_request_lives_as_in_a_gateway() -> None:
    fleet, records = small_fleet()
    fleet.put_call(call(num_output_tokens=3))
    fleet.run()
    [record] = records.take()
    assert kinds(record) == [
        "arrived",
        "received",
        "admitted",
        "scheduled",
        "prefill_chunk",
        "first_token",
        "first_write",
        "tokens",
        "write",
        "tokens",
        "write",
        "finished",
        "last_write",
        "released",
    ]
    assert record.disposition is Disposition.STOP
    assert record.delivery is Delivery.COMPLETE
    assert record.latencies.queue_time == 0
    assert record.latencies.server.ttft == 1
    assert record.latencies.server.tpot == 1
    assert record.latencies.server.e2e == 3
    assert record.latencies.engine.e2e == 3
    assert decode_record(encode_record(record)) == record


def test_an_answer_in_one_piece_has_no_pace() -> None:
    fleet, records = small_fleet()
    fleet.put_call(call(is_stream=False))
    fleet.run()
    [record] = records.take()
    assert record.latencies.server.ttft == record.latencies.server.e2e == 3
    assert record.latencies.server.tpot is None
    columns = fleet.results.columns
    assert columns is not None
    assert columns.ttft[0] == 3
    assert columns.tpot[0] != columns.tpot[0], "NaN: there is none"


def test_who_finds_no_slot_waits_and_the_queue_is_bounded() -> None:
    fleet, records = small_fleet(max_num_seqs=1, classes=[ClassPolicy(name="all", max_queue=1)])
    for _ in range(3):
        fleet.put_call(call(num_output_tokens=2))
    fleet.run()
    first, second, third = in_order(records)
    assert [first.latencies.queue_time, second.latencies.queue_time] == [0, 2]
    assert third.disposition is Disposition.REJECTED
    assert third.status_code == 503
    assert third.latencies.queue_time is None


def test_a_deadline_is_kept_at_the_gateways_pace() -> None:
    classes = [ClassPolicy(name="all", deadline_seconds=1.02)]
    fleet, records = small_fleet(max_num_seqs=1, classes=classes)
    fleet.put_call(call(num_output_tokens=10))
    fleet.put_call(call())
    fleet.run()
    late = in_order(records)[1]
    assert late.disposition is Disposition.DEADLINE
    assert late.events[-1].at == pytest.approx(1.05), "it looks every 50 ms"


def test_a_prompt_that_cannot_fit_is_invalid_and_costs_nothing() -> None:
    fleet, records = small_fleet(max_model_len=10)
    fleet.put_call(call(num_prompt_tokens=9, max_tokens=2))
    fleet.put_call(call(num_prompt_tokens=9, num_output_tokens=4))
    fleet.run()
    refused, cut = in_order(records)
    assert refused.disposition is Disposition.INVALID
    assert refused.status_code == 400
    assert cut.disposition is Disposition.LENGTH
    assert cut.num_output_tokens == 1


def test_an_impatient_client_frees_what_it_held_in_queue_prefill_and_decode() -> None:
    fleet, records = small_fleet(max_num_seqs=1)
    leaves = {at: ClientBehaviour(answer_within=at) for at in (0.5, 3.5, 4.2)}
    fleet.put_call(call(num_output_tokens=50, client=leaves[3.5]))  # in decode
    fleet.put_call(call(client=leaves[0.5]))  # in the queue
    fleet.put_call(call(num_output_tokens=50, client=leaves[4.2]))  # in prefill
    fleet.put_call(call(num_output_tokens=1))
    fleet.run()
    decode, queued, prefill, last = in_order(records)
    assert [r.disposition for r in (decode, queued, prefill)] == [Disposition.CANCELLED] * 3
    assert decode.delivery is Delivery.PARTIAL
    assert decode.num_output_tokens == 4, "that of the step under way is selected still"
    assert queued.delivery is prefill.delivery is Delivery.NONE
    assert queued.replica_ids == ()
    assert prefill.latencies.queue_time == 4, "the step in which it was freed had to end"
    assert last.disposition is Disposition.STOP
    assert fleet.num_in_flight == 0


def test_an_answer_that_ends_with_the_step_under_way_ends_as_if_its_client_were_there() -> None:
    fleet, records = small_fleet()
    fleet.put_call(call(num_output_tokens=3, client=ClientBehaviour(answer_within=2.5)))
    fleet.run()
    [record] = records.take()
    assert record.disposition is Disposition.STOP
    assert record.num_output_tokens == 3
    assert record.delivery is Delivery.PARTIAL
    assert kinds(record)[-4:] == ["last_write", "tokens", "finished", "released"]


def test_a_slow_reader_holds_no_slot_and_is_waited_for() -> None:
    fleet, records = small_fleet(max_num_seqs=1)
    reading = Reading(tokens_per_second=0.5, buffered_tokens=2)
    fleet.put_call(call(num_output_tokens=6, client=ClientBehaviour(reading=reading)))
    fleet.put_call(call(num_output_tokens=1))
    fleet.run()
    slow, fast = in_order(records)
    assert slow.latencies.engine.e2e == 6
    assert slow.latencies.server.e2e == 1 + (6 - 2) / 0.5
    assert slow.delivery is Delivery.COMPLETE
    assert fast.latencies.queue_time == 6, "the slot was free when the engine was done"


def test_a_client_that_stops_reading_is_cut_off() -> None:
    fleet, records = small_fleet()
    reading = Reading(tokens_per_second=10, stops_after=3, buffered_tokens=2)
    fleet.put_call(call(num_output_tokens=90, client=ClientBehaviour(reading=reading)))
    fleet.run()
    [record] = records.take()
    assert record.disposition is Disposition.CANCELLED
    assert record.reason == "the client read nothing for 60 s"
    assert record.delivery is Delivery.PARTIAL
    # The sixth token is written at 6 s, and nothing of it is taken.
    assert next(e.at for e in record.events if e.kind is EventKind.LAST_WRITE) == 66


def test_a_refused_client_comes_again_and_counts_again() -> None:
    retries = Retries(max_retries=2, backoff=1.5, heeds_retry_after=True)
    client = ClientBehaviour(retries=retries)
    classes = [ClassPolicy(name="all", max_queue=0)]
    fleet, records = small_fleet(max_num_seqs=1, classes=classes)
    fleet.put_call(call(num_output_tokens=3))
    fleet.put_call(call(num_output_tokens=1, client=client))
    fleet.run()
    dispositions = [record.disposition for record in in_order(records)]
    assert dispositions == ["stop", "rejected", "rejected", "stop"]
    assert fleet.gateways[0].counts().arrived == 4


def test_a_client_that_leaves_a_replica_that_hangs_comes_again_at_once() -> None:
    retries = Retries(max_retries=1, backoff=1, when_impatient=True)
    client = ClientBehaviour(first_token_within=3, retries=retries)
    fleet, records = small_fleet(num_replicas=2)
    fleet.replicas["replica-0"].stall()
    fleet.put_call(call(client=client))
    fleet.run()
    first, second = in_order(records)
    assert second.arrived_at_unix_ns - first.arrived_at_unix_ns == 4_000_000_000
    assert second.replica_ids == ("replica-1",)
    assert second.disposition is Disposition.STOP
    assert first.events[-1].at == 33, "the gateway waited for the end of it"


def test_a_retry_storm_ends_with_its_bound() -> None:
    client = ClientBehaviour(retries=Retries(max_retries=5, backoff=0))
    fleet, records = small_fleet(classes=[ClassPolicy(name="all", match="false")])
    fleet.put_call(call(client=client))
    fleet.run()
    assert len(records.take()) == 1, "a 403 is not asked again"
    fleet, records = small_fleet(num_replicas=0, classes=[ClassPolicy(name="all")])
    fleet.put_call(call(client=client))
    fleet.run()
    assert len(records.take()) == 6


def test_a_killed_replica_costs_a_request_one_attempt() -> None:
    fleet, records = small_fleet(num_replicas=2)
    fleet.put_call(call(num_output_tokens=5))  # on replica-0, in decode
    fleet.timeline.at(2.5, lambda: fleet.put_call(call(num_output_tokens=2)))
    fleet.timeline.at(2.5, lambda: fleet.put_call(call(num_output_tokens=2)))
    fleet.timeline.at(2.7, lambda: fleet.replicas["replica-0"].kill("it was killed"))
    fleet.run()
    lost, other, moved = in_order(records)
    assert lost.disposition is Disposition.ERROR
    assert lost.delivery is Delivery.PARTIAL
    assert lost.events[-1].kind is EventKind.RELEASED
    assert other.disposition is moved.disposition is Disposition.STOP
    assert other.replica_ids == ("replica-1",)
    assert moved.replica_ids == ("replica-0", "replica-1")
    assert fleet.replicas["replica-0"].state is ReplicaState.STOPPED


def test_a_request_that_the_next_replica_refuses_has_left_nothing_on_the_one_before() -> None:
    fleet, records = small_fleet(num_replicas=2)
    first, second = fleet.replicas.values()
    second.kill("it starts again with less memory")
    second.scheduler_config = dataclasses.replace(second.scheduler_config, num_blocks=2)
    second.serve()
    fleet.put_call(call(num_prompt_tokens=90, num_output_tokens=2))
    fleet.timeline.at(0.5, lambda: first.kill("it was killed"))
    fleet.run()
    [record] = records.take()
    assert record.disposition is Disposition.ERROR
    assert "exceed the KV pool" in (record.reason or "")
    [released] = [event for event in record.events if event.kind is EventKind.RELEASED]
    assert released.observability is Observability.INFERRED


def test_a_replica_that_starts_takes_requests_when_it_is_ready() -> None:
    start = ColdStart(acquire=0.5, load=2, warm_up=1)
    fleet, records = small_fleet(cold_start=start)
    fleet.put_call(call())
    fleet.run()
    [record] = records.take()
    assert record.latencies.queue_time == 3.5
    stages = ["acquire", "load", "compile", "warm_up", "serving"]
    assert [change.what for change in fleet.changes] == stages


def test_a_draining_replica_ends_what_it_has_and_takes_nothing_new() -> None:
    fleet, records = small_fleet(num_replicas=2)
    fleet.put_call(call(num_output_tokens=4))
    fleet.timeline.at(1.5, fleet.replicas["replica-0"].drain)
    fleet.timeline.at(2.0, lambda: fleet.put_call(call()))
    fleet.run()
    assert [r.replica_ids for r in in_order(records)] == [("replica-0",), ("replica-1",)]
    assert [r.disposition for r in in_order(records)] == [Disposition.STOP] * 2
    assert fleet.replicas["replica-0"].state is ReplicaState.STOPPED


def test_a_stalled_replica_goes_on_where_it_stood() -> None:
    fleet, records = small_fleet()
    fleet.put_call(call(num_output_tokens=3))
    fleet.timeline.at(1.5, fleet.replicas["replica-0"].stall)
    fleet.timeline.at(10, fleet.replicas["replica-0"].resume)
    fleet.run()
    [record] = records.take()
    assert record.latencies.server.e2e == 11


def test_an_end_that_a_stalled_engine_does_not_confirm_is_a_leak() -> None:
    fleet, records = small_fleet()
    fleet.put_call(call(num_output_tokens=30, client=ClientBehaviour(answer_within=3)))
    fleet.timeline.at(1.5, fleet.replicas["replica-0"].stall)
    fleet.run()
    [record] = records.take()
    assert record.disposition is Disposition.CANCELLED
    assert "did not confirm the end" in (record.reason or "")
    assert record.events[-1].at == 33
    assert fleet.gateways[0].num_leaked == 1


def test_a_replica_counts_the_tokens_of_an_answer_that_its_gateway_gave_up() -> None:
    fleet, _ = small_fleet()
    replica = fleet.replicas["replica-0"]
    fleet.put_call(call(num_output_tokens=3, client=ClientBehaviour(answer_within=2.8)))
    fleet.timeline.at(2.5, replica.stall)  # in the step that selects the last one
    fleet.timeline.at(50, replica.resume)
    fleet.run_until(60)
    assert fleet.gateways[0].num_leaked == 1
    assert (replica.counts().num_steps, replica.counts().num_output_tokens) == (3, 3)


def test_a_replica_counts_the_tokens_of_answers_that_ended_with_its_process() -> None:
    fleet, _ = small_fleet()
    replica = fleet.replicas["replica-0"]
    fleet.put_call(call(num_output_tokens=5))
    fleet.run_until(2.5)
    assert replica.counts().num_output_tokens == 2
    replica.kill("it was killed")
    assert replica.counts().num_output_tokens == 2


def test_a_simulation_that_cannot_end_says_so() -> None:
    fleet, _ = small_fleet()
    fleet.put_call(call())
    fleet.timeline.at(0.5, fleet.replicas["replica-0"].stall)
    with pytest.raises(FleetError, match=r"1 requests are in flight.*; replica-0 is stalled"):
        fleet.run()


def test_a_shortage_that_does_not_end_names_the_replica_and_what_it_lacks() -> None:
    fleet, _ = small_fleet(num_replicas=2, num_blocks=4)
    fleet.put_call(call(num_output_tokens=8))  # grows into a third block
    fleet.put_call(call())
    engine = fleet.replicas["replica-0"].engine
    assert engine is not None
    assert engine.scheduler.pool.allocate(2) is not None  # and nobody gives them back
    with pytest.raises(FleetError) as caught:
        fleet.run()
    assert "replica-0 is blocked on blocks: 0 of 4 blocks free" in str(caught.value)
    assert "replica-1" not in str(caught.value)


def test_each_gateway_knows_only_its_own_requests() -> None:
    fleet, records = small_fleet(num_gateways=2, max_num_seqs=1)
    for _ in range(2):
        fleet.put_call(call(num_output_tokens=2))
    fleet.run()
    first, second = in_order(records)
    assert first.gateway_id != second.gateway_id
    assert second.latencies.queue_time == 2, "the engine has it wait, not its gateway"


@pytest.mark.parametrize("boundary", [Boundary.SERVER, Boundary.ENGINE])
def test_requests_are_judged_by_their_contract(boundary: Boundary) -> None:
    terms = ContractTerms(
        boundary=boundary,
        objectives=(Objective(signal=ObjectiveSignal.TTFT, target=0.9, at_most_seconds=1.5),),
    )
    contract = ContractPolicy(revision="c@1", terms_by_class={"all": terms})
    fleet, records = small_fleet(max_num_seqs=1, contract=contract)
    for _ in range(2):
        fleet.put_call(call(num_output_tokens=2))
    results = fleet.run()
    assert [r.judgement and r.judgement.in_contract for r in in_order(records)] == [True, False]
    assert results.of_class("all").num_in_contract == 1
    assert results.of_class("all").num_judged == 2
