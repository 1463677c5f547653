"""Several answers to a prompt that is computed on a prefill replica: its KV is handed over once,
and the answers share it on the decode replica. A step takes one second, a prompt token 0.1 s on the
link.
"""

import random

import pytest

from dataplane.lifecycle import Disposition, EventKind
from dataplane.record import RequestRecord
from dataplane.simulation.clients import ClientBehaviour
from dataplane.simulation.fleet import Fleet
from dataplane.simulation.observer.dialects import get_dialect
from dataplane.simulation.observer.fleet_exporters import FleetExporters
from tests.dataplane.simulation.small_fleet import call, in_order
from tests.dataplane.simulation.test_phased_replicas import (
    DECODE,
    PREFILL,
    check_empty,
    num_held,
    phased,
    phases_of,
)
from tests.dataplane.simulation.test_several_answers import several


def told(record: RequestRecord, kind: EventKind) -> list[tuple[float, int]]:
    return [(event.at, event.sequence) for event in record.events if event.kind is kind]


def counts(fleet: Fleet, replica_id: str) -> tuple[int, int]:
    """Prompt and output tokens."""
    of = fleet.replicas[replica_id].counts()
    return of.num_prompt_tokens, of.num_output_tokens


def test_the_prompt_is_computed_and_sent_once_and_the_others_follow_where_it_is_decoded() -> None:
    fleet, records = phased(is_prefix_caching=True)
    fleet.put_call(several(2, 4, 1, num_prompt_tokens=10))
    fleet.run()
    check_empty(fleet)
    [record] = in_order(records)
    assert record.replica_ids == (PREFILL, DECODE)
    assert told(record, EventKind.SCHEDULED) == [(0, 0)]
    assert told(record, EventKind.PAUSED) == [(1, 0)]
    assert told(record, EventKind.RESUMED) == [(2, 0)]
    assert told(record, EventKind.FIRST_TOKEN) == [(1, 0), (4, 1), (4, 2)]
    assert told(record, EventKind.FINISHED) == [(3, 0), (4, 2), (7, 1)]
    assert told(record, EventKind.RELEASED) == [(7, 0)]
    assert record.num_output_tokens == 2 + 4 + 1
    assert counts(fleet, PREFILL) == (10, 1)
    # Each of the others computes what is behind the two full blocks of the prompt.
    assert counts(fleet, DECODE) == (2 * 2, 6)
    sent = phases_of(fleet).counts
    assert (sent.num_transfers, sent.num_bits) == (1, 8.0)


def test_answers_share_the_blocks_of_their_prompt_on_the_decode_replica() -> None:
    fleet, _ = phased(is_prefix_caching=True)
    fleet.put_call(several(9, 9, 9, num_prompt_tokens=9))
    fleet.run_until(4.5)
    assert num_held(fleet, PREFILL) == 0
    assert num_held(fleet, DECODE) == 2 + 3 * 1, "two of the prompt, and one for each answer"
    fleet.run()
    check_empty(fleet)


def test_it_takes_one_slot_of_the_prefill_replica_and_one_for_each_answer_of_the_other() -> None:
    fleet, records = phased(is_prefix_caching=True, max_num_seqs=3)
    fleet.put_call(several(2, 2, 2, num_prompt_tokens=5))
    fleet.put_call(several(2, 2, num_prompt_tokens=5))
    fleet.put_call(call(num_output_tokens=2))
    fleet.run()
    check_empty(fleet)
    first, second, third = in_order(records)
    for record in (first, second, third):
        assert told(record, EventKind.FIRST_TOKEN)[0] == (1, 0)
    # The first has all three slots, from 1 s on; the others share them behind it.
    assert told(first, EventKind.RELEASED) == [(4.5, 0)]
    assert told(second, EventKind.RESUMED) == [(5.0, 0)]
    assert told(third, EventKind.RESUMED) == [(6.0, 0)], "its KV is there in the middle of a step"


def test_answers_of_one_token_need_no_decode_replica() -> None:
    fleet, records = phased(is_prefix_caching=True)
    fleet.put_call(several(1, 1, 1))
    fleet.put_call(several(5, 5, max_tokens=1))
    fleet.run()
    check_empty(fleet)
    for record in in_order(records):
        assert record.replica_ids == (PREFILL,)
    assert phases_of(fleet).counts.num_transfers == 0


def test_where_the_first_answer_is_one_token_a_longer_one_is_handed_over() -> None:
    fleet, records = phased(is_prefix_caching=True)
    fleet.put_call(several(1, 3, num_prompt_tokens=5))
    fleet.run()
    check_empty(fleet)
    [record] = in_order(records)
    assert record.disposition is Disposition.STOP
    assert record.num_output_tokens == 1 + 3
    assert told(record, EventKind.FINISHED) == [(3.5, 0), (3.5, 1)]


@pytest.mark.parametrize(
    ("leaves_at", "num_output_tokens"),
    [
        pytest.param(0.5, 1, id="while the prompt is computed"),
        pytest.param(1.25, 1, id="while its KV is on the link"),
        pytest.param(2.0, 2, id="in the first step of the decode replica"),
        pytest.param(3.0, 3 + 1 + 1, id="while the others begin"),
        pytest.param(4.0, 4 + 2 + 2, id="while all of them are decoded"),
    ],
)
def test_a_client_that_leaves_ends_all_of_them(leaves_at: float, num_output_tokens: int) -> None:
    fleet, records = phased(is_prefix_caching=True)
    client = ClientBehaviour(answer_within=leaves_at)
    fleet.put_call(several(20, 20, 20, num_prompt_tokens=5, client=client))
    fleet.run()
    check_empty(fleet)
    [record] = in_order(records)
    assert record.disposition is Disposition.CANCELLED
    assert record.num_output_tokens == num_output_tokens
    assert len(told(record, EventKind.RELEASED)) == 1
    assert counts(fleet, PREFILL)[1] + counts(fleet, DECODE)[1] == num_output_tokens


def test_a_decode_replica_that_dies_while_kv_comes_to_it_costs_time_alone() -> None:
    fleet, records = phased(decode=2, is_prefix_caching=True)
    fleet.put_call(several(3, 3, num_prompt_tokens=10))
    fleet.timeline.at(1.5, lambda: fleet.replicas[DECODE].kill("it was killed"))
    fleet.run()
    check_empty(fleet)
    [record] = in_order(records)
    assert record.disposition is Disposition.STOP
    assert record.replica_ids == (PREFILL, "replica-2")
    assert record.num_output_tokens == 6


def test_a_decode_replica_that_dies_later_fails_all_of_them_once() -> None:
    fleet, records = phased(is_prefix_caching=True)
    fleet.put_call(several(9, 9, num_prompt_tokens=5))
    fleet.timeline.at(4.0, lambda: fleet.replicas[DECODE].kill("it was killed"))
    fleet.run()
    check_empty(fleet)
    [record] = in_order(records)
    assert record.disposition is Disposition.ERROR
    assert record.num_output_tokens == 3 + 1


def test_a_decode_replica_that_drains_waits_for_all_of_them() -> None:
    fleet, records = phased(is_prefix_caching=True)
    fleet.put_call(several(2, 5, num_prompt_tokens=5))
    fleet.timeline.at(2.0, fleet.replicas[DECODE].drain)
    fleet.run()
    [record] = in_order(records)
    assert record.disposition is Disposition.STOP
    assert fleet.changes[-1].what == "drained"
    assert fleet.changes[-1].at == record.events[-1].at


def test_what_both_replicas_export_adds_up_to_what_was_answered() -> None:
    fleet, records = phased(is_prefix_caching=True)
    exporters = FleetExporters(fleet, lambda _: get_dialect("vllm"), lambda seen: None)
    for replica_id, exporter in exporters.by_replica.items():
        replica = fleet.replicas[replica_id]
        assert replica.engine is not None
        exporter.started(replica.engine.scheduler, replica.cost)
    fleet.put_call(several(7, 2, 1, num_prompt_tokens=5))
    fleet.put_call(several(3, 3, num_prompt_tokens=6))
    fleet.run()
    exported = sum(each.tally.num_output_tokens for each in exporters.by_replica.values())
    assert exported == sum(record.num_output_tokens or 0 for record in in_order(records)) == 16


@pytest.mark.parametrize("number", range(12))
def test_nothing_is_lost_or_kept_whatever_is_asked_for_and_whoever_dies(number: int) -> None:
    stream = random.Random(number)
    fleet, records = phased(
        prefill=2,
        decode=2,
        max_num_seqs=stream.randint(2, 5),
        num_blocks=stream.randint(14, 40),
        is_prefix_caching=True,
    )

    def ask() -> None:
        lengths = [stream.choice([1, 2, 5, 12]) for _ in range(stream.randint(1, 4))]
        patience = stream.choice([None, None, stream.uniform(0.5, 30)])
        client = ClientBehaviour(answer_within=patience)
        num_prompt_tokens = stream.randint(1, 20)
        fleet.put_call(several(*lengths, num_prompt_tokens=num_prompt_tokens, client=client))

    def strike() -> None:
        replica = stream.choice(list(fleet.replicas.values()))
        replica.kill("it was killed")
        fleet.timeline.after(stream.uniform(0, 3), replica.start)

    num_calls = 40
    for _ in range(num_calls):
        fleet.timeline.at(stream.uniform(0, 60), ask)
    for _ in range(stream.randint(0, 3)):
        fleet.timeline.at(stream.uniform(0, 60), strike)
    fleet.every(0.7, fleet.check_integrity)
    fleet.run()
    fleet.run_until(fleet.timeline.now + 100)
    check_empty(fleet)
    ended = in_order(records)
    assert len(ended) == num_calls
    for record in ended:
        released = told(record, EventKind.RELEASED)
        assert len(released) <= 1
    assert sum(record.num_output_tokens or 0 for record in ended) == sum(
        counts(fleet, replica_id)[1] for replica_id in fleet.replicas
    ), "each token is selected by one replica and is of one answer"
