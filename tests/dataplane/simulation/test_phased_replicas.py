"""A prefill replica, a decode replica, and the link between them: a step takes one second."""

import pytest

from dataplane.lifecycle import Delivery, Disposition, EventKind
from dataplane.record import RequestRecord
from dataplane.simulation.clients import ClientBehaviour
from dataplane.simulation.fleet import Fleet
from dataplane.simulation.fleet_records import AllRecords
from dataplane.simulation.phase_split import PhaseSplit
from dataplane.simulation.phased_replicas import PhasedReplicas, PhasePlan
from tests.dataplane.simulation.small_fleet import call, in_order, small_fleet, steady

PREFILL, DECODE = "replica-0", "replica-1"
SECONDS_PER_TOKEN = 0.1
"""On the link: a prompt of five tokens takes half a second."""


def phased(
    prefill: int = 1,
    decode: int = 1,
    seconds_per_token: float = SECONDS_PER_TOKEN,
    max_num_seqs: int = 4,
    num_blocks: int = 200,
    duration: float = 100.0,
    every: float | None = None,
    is_prefix_caching: bool = False,
) -> tuple[Fleet, AllRecords]:
    return small_fleet(
        num_replicas=prefill + decode,
        max_num_seqs=max_num_seqs,
        num_blocks=num_blocks,
        duration=duration,
        traffic=() if every is None else (steady(every),),
        is_prefix_caching=is_prefix_caching,
        phases=PhasePlan(
            split=PhaseSplit(prefill=prefill, decode=decode),
            bits_per_second=8.0,
            bytes_per_token=seconds_per_token,
        ),
    )


def phases_of(fleet: Fleet) -> PhasedReplicas:
    assert fleet.phases is not None
    return fleet.phases


def num_held(fleet: Fleet, replica_id: str) -> int:
    engine = fleet.replicas[replica_id].engine
    assert engine is not None
    return engine.scheduler.pool.num_referenced


def events_of(record: RequestRecord) -> list[tuple[EventKind, float]]:
    kinds = (EventKind.WRITE, EventKind.FIRST_WRITE)
    return [(event.kind, event.at) for event in record.events if event.kind not in kinds]


def check_empty(fleet: Fleet) -> None:
    """Nothing is held by anybody."""
    fleet.check_integrity()
    for replica in fleet.replicas.values():
        assert replica.num_requests == 0
        assert replica.engine is None or replica.engine.scheduler.pool.num_referenced == 0
    for gateway in fleet.gateways:
        queues = (gateway.queue, *phases_of(fleet).queues)
        assert gateway.num_live == 0
        assert not any(q.num_outstanding(r) for q in queues for r in fleet.replicas)
    assert phases_of(fleet).link.num_transfers == 0


def test_a_request_computes_here_moves_and_decodes_there() -> None:
    fleet, records = phased()
    fleet.put_call(call(num_output_tokens=3, num_prompt_tokens=5))
    fleet.run()
    [record] = in_order(records)
    assert events_of(record) == [
        (EventKind.ARRIVED, 0.0),
        (EventKind.RECEIVED, 0.0),
        (EventKind.ADMITTED, 0.0),
        (EventKind.SCHEDULED, 0.0),
        (EventKind.PREFILL_CHUNK, 1.0),
        (EventKind.FIRST_TOKEN, 1.0),
        (EventKind.PAUSED, 1.0),
        (EventKind.RESUMED, 1.5),
        (EventKind.TOKENS, 2.5),
        (EventKind.TOKENS, 3.5),
        (EventKind.FINISHED, 3.5),
        (EventKind.LAST_WRITE, 3.5),
        (EventKind.RELEASED, 3.5),
    ]
    assert record.replica_ids == (PREFILL, DECODE)
    paused, resumed = (
        next(event for event in record.events if event.kind is kind)
        for kind in (EventKind.PAUSED, EventKind.RESUMED)
    )
    assert (paused.replica_id, resumed.replica_id) == (PREFILL, DECODE)
    assert record.num_output_tokens == 3
    check_empty(fleet)


def test_each_replica_counts_what_it_did_itself() -> None:
    fleet, _ = phased()
    fleet.put_call(call(num_output_tokens=3, num_prompt_tokens=5))
    fleet.run()
    prefill, decode = (fleet.replicas[each].counts() for each in (PREFILL, DECODE))
    assert (prefill.num_prompt_tokens, prefill.num_output_tokens, prefill.num_steps) == (5, 1, 1)
    assert (decode.num_prompt_tokens, decode.num_output_tokens, decode.num_steps) == (0, 2, 2)
    counts = phases_of(fleet).counts
    assert (counts.num_transfers, counts.num_bits) == (1, 4.0)
    assert (counts.slot_wait_seconds, counts.link_wait_seconds) == (0.0, 0.5)


def test_an_answer_of_one_token_needs_no_decode_replica() -> None:
    fleet, records = phased()
    fleet.put_call(call(num_output_tokens=1))
    fleet.run()
    [record] = in_order(records)
    assert record.replica_ids == (PREFILL,)
    assert record.disposition is Disposition.STOP
    assert phases_of(fleet).counts.num_transfers == 0
    check_empty(fleet)


def test_the_prefill_replica_holds_the_blocks_until_the_last_byte_has_left() -> None:
    fleet, _ = phased()
    fleet.put_call(call(num_output_tokens=3, num_prompt_tokens=5))
    fleet.run_until(1.4)
    assert (num_held(fleet, PREFILL), num_held(fleet, DECODE)) == (2, 0)
    fleet.run_until(1.6)
    assert (num_held(fleet, PREFILL), num_held(fleet, DECODE)) == (0, 2)


def test_cached_tokens_of_a_record_are_those_that_the_prefill_replica_found() -> None:
    fleet, records = phased(is_prefix_caching=True)
    for _ in range(2):
        fleet.put_call(call(num_output_tokens=3, num_prompt_tokens=9))
        fleet.run_until(fleet.timeline.now + 10)
    first, second = in_order(records)
    assert (first.num_cached_tokens, second.num_cached_tokens) == (0, 8)
    check_empty(fleet)


def test_what_the_decode_replica_preempts_it_recomputes_itself() -> None:
    fleet, records = phased(num_blocks=6)
    for _ in range(3):
        fleet.put_call(call(num_output_tokens=16, num_prompt_tokens=4))
    fleet.run()
    assert fleet.replicas[DECODE].counts().num_preemptions > 0
    assert fleet.replicas[DECODE].counts().num_prompt_tokens > 0
    assert [record.disposition for record in in_order(records)] == [Disposition.STOP] * 3
    assert [record.num_output_tokens for record in in_order(records)] == [16] * 3
    check_empty(fleet)


def test_a_short_link_grows_its_backlog_by_what_is_offered_above_it() -> None:
    """One request a second puts 20 bits on a link of 8 bits a second."""
    fleet, _ = phased(seconds_per_token=0.5, max_num_seqs=60, every=1.0)
    fleet.run_until(11.0 - 1e-9)
    before = phases_of(fleet).link.backlog_bits
    fleet.run_until(41.0 - 1e-9)
    assert phases_of(fleet).link.backlog_bits - before == pytest.approx(30 * (20 - 8))


def test_without_a_decode_slot_a_request_waits_between_its_phases() -> None:
    fleet, records = phased(max_num_seqs=1)
    for _ in range(2):
        fleet.put_call(call(num_output_tokens=5))
    fleet.run_until(2.1)
    assert phases_of(fleet).num_waiting == 1
    fleet.run()
    counts = phases_of(fleet).counts
    assert (counts.slot_wait_seconds, counts.max_num_waiting) == (5.5 - 2.0, 1)
    first, second = in_order(records)
    assert first.latencies.server.e2e == 5.5
    assert second.latencies.server.ttft == 2.0
    assert second.latencies.server.e2e == 5.5 + 0.5 + 4
    check_empty(fleet)


@pytest.mark.parametrize("after", [0.5, 1.2, 1.9, 2.2, 2.7, 5.4])
def test_a_client_may_leave_in_every_phase(after: float) -> None:
    """While its prompt is computed, on the link, behind another on the link, while it decodes."""
    fleet, records = phased(seconds_per_token=0.2)
    fleet.put_call(call(num_output_tokens=5))
    fleet.put_call(call(num_output_tokens=5, client=ClientBehaviour(answer_within=after)))
    fleet.run()
    stays, leaves = in_order(records)
    assert stays.disposition is Disposition.STOP
    assert leaves.disposition is Disposition.CANCELLED
    assert leaves.delivery is (Delivery.NONE if after < 1 else Delivery.PARTIAL)
    check_empty(fleet)


def test_a_transfer_under_way_holds_the_blocks_of_a_request_that_was_cancelled() -> None:
    fleet, records = phased()
    fleet.put_call(call(client=ClientBehaviour(answer_within=1.2)))
    fleet.run()
    [record] = in_order(records)
    times = dict(events_of(record))
    assert times[EventKind.FINISHED] == 1.2
    assert times[EventKind.RELEASED] == 1.5
    check_empty(fleet)


def test_a_transfer_that_has_not_begun_is_withdrawn_with_its_request() -> None:
    fleet, records = phased()
    fleet.put_call(call())
    fleet.put_call(call(client=ClientBehaviour(answer_within=1.2)))
    fleet.run()
    times = dict(events_of(in_order(records)[1]))
    assert times[EventKind.FINISHED] == times[EventKind.RELEASED] == 1.2
    assert phases_of(fleet).counts.num_transfers == 1
    check_empty(fleet)


def test_a_client_may_leave_while_its_request_waits_for_a_decode_slot() -> None:
    fleet, records = phased(max_num_seqs=1)
    fleet.put_call(call(num_output_tokens=9))
    fleet.put_call(call(client=ClientBehaviour(answer_within=4.0)))
    fleet.run_until(3.0)
    assert phases_of(fleet).num_waiting == 1
    fleet.run()
    times = dict(events_of(in_order(records)[1]))
    assert times[EventKind.FINISHED] == times[EventKind.RELEASED] == 4.0
    check_empty(fleet)


def test_a_prefill_replica_that_dies_takes_what_is_on_the_link_with_it() -> None:
    fleet, records = phased(prefill=1)
    fleet.put_call(call())
    fleet.timeline.at(1.2, lambda: fleet.replicas[PREFILL].kill("it was killed"))
    fleet.run()
    [record] = in_order(records)
    assert record.disposition is Disposition.ERROR
    assert record.delivery is Delivery.PARTIAL
    assert "it was killed" in (record.reason or "")
    fleet.run_until(10)
    check_empty(fleet)


def test_a_prompt_that_was_not_computed_goes_to_another_prefill_replica() -> None:
    fleet, records = phased(prefill=2)
    fleet.put_call(call())
    fleet.timeline.at(0.5, lambda: fleet.replicas["replica-0"].kill("it was killed"))
    fleet.run()
    [record] = in_order(records)
    assert record.disposition is Disposition.STOP
    assert record.replica_ids == ("replica-0", "replica-1", "replica-2")
    check_empty(fleet)


def test_kv_on_its_way_to_a_decode_replica_that_dies_is_sent_to_another() -> None:
    fleet, records = phased(decode=2)
    fleet.put_call(call(num_output_tokens=3))
    fleet.timeline.at(1.2, lambda: fleet.replicas["replica-1"].kill("it was killed"))
    fleet.run()
    [record] = in_order(records)
    assert record.disposition is Disposition.STOP
    assert record.replica_ids == ("replica-0", "replica-2")
    assert dict(events_of(record))[EventKind.FINISHED] == 1 + 0.5 + 0.5 + 2
    check_empty(fleet)


def test_a_decode_replica_that_dies_takes_what_it_decodes_with_it() -> None:
    fleet, records = phased(decode=2)
    fleet.put_call(call(num_output_tokens=9))
    fleet.timeline.at(4.0, lambda: fleet.replicas["replica-1"].kill("it was killed"))
    fleet.run()
    [record] = in_order(records)
    assert record.disposition is Disposition.ERROR
    check_empty(fleet)


def test_without_any_decode_replica_a_request_fails_and_nothing_is_held() -> None:
    fleet, records = phased()
    fleet.replicas[DECODE].kill("it was killed")
    fleet.put_call(call())
    fleet.run()
    [record] = in_order(records)
    assert record.disposition is Disposition.ERROR
    assert "no replica could be reached" in (record.reason or "")
    check_empty(fleet)


def test_a_prefill_replica_that_drains_waits_for_what_is_on_the_link() -> None:
    fleet, records = phased()
    fleet.put_call(call())
    fleet.timeline.at(1.2, fleet.replicas[PREFILL].drain)
    fleet.run()
    assert in_order(records)[0].disposition is Disposition.STOP
    assert [(change.at, change.what) for change in fleet.changes][-2:] == [
        (1.2, "draining"),
        (1.5, "drained"),
    ]


def test_a_replica_of_another_phase_brings_to_its_end_what_it_began() -> None:
    fleet, records = phased(prefill=1, decode=2)
    fleet.put_call(call(num_output_tokens=5))
    fleet.put_call(call(num_output_tokens=5))
    fleet.timeline.at(2.2, lambda: fleet.set_split(PhaseSplit(prefill=2, decode=1)))
    fleet.timeline.at(3.0, lambda: fleet.put_call(call(num_output_tokens=5)))
    fleet.run()
    assert {record.disposition for record in in_order(records)} == {Disposition.STOP}
    assert in_order(records)[2].replica_ids[1] == "replica-2"
    check_empty(fleet)


def test_a_replica_that_drains_after_it_changed_phase_decodes_what_it_computed() -> None:
    fleet, records = phased(prefill=2, decode=1, max_num_seqs=1)
    fleet.put_call(call(num_output_tokens=20))
    fleet.put_call(call(num_output_tokens=3))
    fleet.timeline.at(2.2, lambda: fleet.set_split(PhaseSplit(prefill=1, decode=2)))
    fleet.timeline.at(2.4, fleet.replicas["replica-1"].drain)
    fleet.run()
    assert in_order(records)[1].replica_ids == ("replica-1",)
    assert {record.disposition for record in in_order(records)} == {Disposition.STOP}
    assert "drained" in [each.what for each in fleet.changes if each.replica_id == "replica-1"]
    check_empty(fleet)


def test_every_replica_does_one_phase() -> None:
    fleet, _ = phased()
    with pytest.raises(ValueError, match="2 prefill and 1 decode replicas, of 2"):
        fleet.set_split(PhaseSplit(prefill=2, decode=1))
