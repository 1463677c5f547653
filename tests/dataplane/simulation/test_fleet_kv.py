"""KV blocks that a policy reserves, in simulated fleets: what engines then need not take back."""

import pytest

from dataplane.lifecycle import Disposition
from dataplane.policy import KVLimits, KVReserve
from dataplane.simulation.call import Call
from dataplane.simulation.fleet import Fleet
from tests.dataplane.simulation.small_fleet import call, in_order, small_fleet

SHORT = call(num_output_tokens=3, num_prompt_tokens=5, max_tokens=43)


def put(fleet: Fleet, what: Call, at: float) -> None:
    """Somebody calls then."""
    fleet.timeline.at(at, lambda: fleet.put_call(what))


def crowd(kv: KVLimits | None) -> tuple[int, int]:
    """Six at once on ten blocks of four tokens, of which each comes to need five. Returns how many
    were sent to the engine at once, and how often it had to take blocks back."""
    fleet, records = small_fleet(max_num_seqs=6, num_blocks=10, max_model_len=40, kv=kv)
    [gateway], [replica_id] = fleet.gateways, fleet.replicas
    num_sent: list[int] = []
    for _ in range(6):
        fleet.put_call(call(num_output_tokens=15, num_prompt_tokens=5, max_tokens=15))
    fleet.timeline.at(0.5, lambda: num_sent.append(gateway.queue.num_outstanding(replica_id)))
    fleet.run()
    taken = in_order(records)
    assert [record.disposition for record in taken] == [Disposition.STOP] * 6
    assert gateway.queue.kv.reserved_by_replica() == {}
    gateway.queue.check_integrity()
    num_preempted = sum(event.kind == "preempted" for record in taken for event in record.events)
    return num_sent[0], num_preempted


def test_without_reservations_an_engine_is_sent_more_than_it_can_hold() -> None:
    num_sent, num_preempted = crowd(None)
    assert num_sent == 6
    assert num_preempted > 0


def test_what_is_reserved_whole_is_never_taken_back_and_the_others_wait_for_it() -> None:
    assert crowd(KVLimits(reserve=KVReserve.FULL, watermark=0.0)) == (2, 0)


def test_where_nothing_of_the_output_is_reserved_prompts_alone_must_fit() -> None:
    num_sent, _ = crowd(KVLimits(reserve=KVReserve.NONE, watermark=0.0))
    assert num_sent == 5


def test_a_class_whose_answers_are_known_is_expected_to_give_no_longer_ones() -> None:
    fleet, records = small_fleet(
        max_num_seqs=8,
        num_blocks=20,
        max_model_len=64,
        kv=KVLimits(reserve=KVReserve.EXPECTED, quantile=0.9, watermark=0.0),
    )
    for number in range(40):
        put(fleet, SHORT, 5.0 * number)
    for _ in range(6):
        put(fleet, SHORT, 500.0)
    fleet.run()
    late = in_order(records)[-6:]
    assert [record.latencies.queue_time for record in late] == [0.0] * 6, "two blocks for each"


@pytest.mark.parametrize("reserve", list(KVReserve))
def test_a_replica_that_dies_gives_back_what_was_reserved_on_it(reserve: KVReserve) -> None:
    fleet, records = small_fleet(
        num_replicas=2, num_blocks=12, max_model_len=40, kv=KVLimits(reserve=reserve)
    )
    for number in range(8):
        put(fleet, call(num_output_tokens=10, max_tokens=10), float(number))
    first = next(iter(fleet.replicas.values()))
    fleet.timeline.at(6.5, lambda: first.kill("it was killed"))
    fleet.run()
    assert len(records.taken) == 8
    [gateway] = fleet.gateways
    assert gateway.queue.kv.reserved_by_replica() == {}
    gateway.queue.kv.check_integrity()
