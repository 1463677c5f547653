"""One of several answers outgrows the KV pool: the others end with it, at once, as in an engine.

A step takes one second; the pool holds 32 tokens. A prompt of nine and two long answers fill it:
at 12 s the second is preempted, and at 24 s the first has outgrown the pool. In the step that
refuses it the second is resumed.
"""

from dataplane.lifecycle import Disposition, EventKind
from dataplane.record import RequestRecord
from dataplane.simulation.fleet import Fleet
from dataplane.simulation.fleet_records import AllRecords
from dataplane.simulation.observer.dialects import get_dialect
from dataplane.simulation.observer.fleet_exporters import FleetExporters
from dataplane.simulation.observer.tally import EngineTally
from tests.dataplane.simulation.small_fleet import call, in_order, small_fleet
from tests.dataplane.simulation.test_several_answers import several

NUM_SELECTED = 24 + 11
"""By both answers, until the first outgrew the pool."""


def too_small() -> tuple[Fleet, AllRecords]:
    return small_fleet(is_prefix_caching=True, num_blocks=8)


def at(record: RequestRecord, kind: EventKind) -> list[float]:
    return [event.at for event in record.events if event.kind is kind]


def test_the_other_answer_ends_at_once_and_no_step_is_run_for_it() -> None:
    fleet, records = too_small()
    fleet.put_call(several(30, 30))
    fleet.run()
    fleet.check_integrity()
    [record] = in_order(records)
    assert record.disposition is Disposition.ERROR
    assert record.num_output_tokens == NUM_SELECTED
    assert at(record, EventKind.PREEMPTED) == [12]
    assert at(record, EventKind.FINISHED) == at(record, EventKind.RELEASED) == [24]
    counts = fleet.replicas["replica-0"].counts()
    assert counts.num_output_tokens == NUM_SELECTED
    assert counts.busy_seconds == 24
    assert not fleet.replicas["replica-0"].requests()


def test_who_waits_behind_is_in_a_step_that_is_paid_for_and_the_other_selects_nothing() -> None:
    fleet, records = too_small()
    fleet.put_call(several(30, 30))
    fleet.timeline.at(23.5, lambda: fleet.put_call(call(num_output_tokens=2)))
    fleet.run()
    refused, behind = in_order(records)
    assert refused.num_output_tokens == NUM_SELECTED
    assert at(refused, EventKind.FINISHED) == [24]
    assert at(refused, EventKind.RELEASED) == [25], "the step that began reads its blocks"
    assert at(behind, EventKind.FIRST_TOKEN) == [1.5], "counted from its arrival"
    assert fleet.replicas["replica-0"].counts().num_output_tokens == NUM_SELECTED + 2


def test_what_is_exported_counts_no_token_that_nobody_selected() -> None:
    fleet, _ = too_small()
    exporters = FleetExporters(fleet, lambda _: get_dialect("vllm"), lambda seen: None)
    exporter, replica = exporters.by_replica["replica-0"], fleet.replicas["replica-0"]
    assert replica.engine is not None
    exporter.started(replica.engine.scheduler, replica.cost)
    fleet.put_call(several(30, 30))
    fleet.timeline.at(23.5, lambda: fleet.put_call(call(num_output_tokens=2)))
    fleet.run()
    tally: EngineTally = exporter.tally
    assert tally.num_output_tokens == NUM_SELECTED + 2
    assert (tally.num_refused, tally.num_cancelled, tally.num_stopped) == (2, 0, 1)
