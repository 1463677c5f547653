"""Who floods, who tries again and who does not read is seen in the requests that were recorded."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import msgspec
import pytest

from controlplane.diagnosis.always_on.settings import AlwaysOnSettings
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.sources.records.ended_request import of_row
from controlplane.diagnosis.sources.records.ending_facts import sends_more
from controlplane.diagnosis.sources.records.request_facts import facts_of_requests
from controlplane.store.database import Database
from controlplane.store.records import RecordBatch, store_batch
from controlplane.store.request_rows import compact_row
from controlplane.store.request_tables import RequestRow
from controlplane.store.reservoirs import ReservoirSizes
from dataplane.lifecycle import EventKind
from dataplane.record import RequestRecord
from ops.sample_requests import Sample, answered, retried
from tests.controlplane.diagnosis.always_on.metrics_server import (
    MetricsServer,
    serving,
    vllm_page,
)
from tests.controlplane.diagnosis.always_on.watched_fleet import START_NS, replica, watched_fleet


@pytest.fixture
def engine() -> Iterator[MetricsServer]:
    with serving() as server:
        yield server


def _sent(
    tenant: str,
    begin: float,
    end: float,
    every: float,
    first: int,
    wait: float,
    num_tokens: int = 900,
) -> Iterator[RequestRecord]:
    for number in range(round((end - begin) / every)):
        at = START_NS + round((begin + number * every) * 1e9)
        yield answered(
            Sample(
                sequence=first + number,
                arrived_at_unix_ns=at,
                tenant=tenant,
                queue_seconds=wait,
                num_prompt_tokens=num_tokens,
            )
        )


def _told(records: Iterable[RequestRecord], *, is_one_sending_more: bool) -> dict[str, str]:
    ended = [of_row(RequestRow(**_columns(record))) for record in records]
    facts = facts_of_requests(ended, START_NS / 1e9 + 60, is_one_sending_more=is_one_sending_more)
    assert all(fact.is_observed for fact in facts)
    return {fact.key: fact.raw for fact in facts}


def _columns(record: RequestRecord) -> dict[str, object]:
    row = compact_row(record)
    num_output_tokens = row.pop("num_output_tokens")
    return {**row, "counted_output_tokens": num_output_tokens}


def test_tenants_are_told_of_where_one_sends_more_than_it_used_to() -> None:
    records = [*_sent("a", 0, 60, 6, 0, 0.1), *_sent("b", 0, 60, 1, 100, 2.0)]
    told = _told(records, is_one_sending_more=True)

    assert told["requests_by_tenant_last_60_s"] == "b 60, a 10"
    assert told["prompt_tokens_by_tenant_last_60_s"] == "b 54000, a 9000"
    assert told["queue_wait_p50_by_tenant_s"] == "a 0.1, b 2.0"
    assert _told(records, is_one_sending_more=False) == {}


def test_a_tenant_who_was_never_seen_before_floods_with_many_and_not_with_two() -> None:
    assert not sends_more(Counter({"new": 2, "a": 1}), {"a": 60}, 600)
    assert sends_more(Counter({"new": 60, "a": 18}), {"a": 60}, 600)


def test_further_attempts_are_told_where_they_are_no_accident() -> None:
    once = list(_sent("a", 0, 60, 3, 0, 0.0))
    again = [retried(Sample(sequence=90 + n, arrived_at_unix_ns=START_NS)) for n in range(4)]

    assert _told([*once, again[0]], is_one_sending_more=False) == {}
    told = _told([*once, *again], is_one_sending_more=False)
    assert told == {"further_attempts_last_60_s": "4", "requests_last_60_s": "24"}


def test_clients_that_do_not_read_are_told() -> None:
    def unread(record: RequestRecord) -> RequestRecord:
        events = tuple(
            msgspec.structs.replace(event, at=event.at + 3)
            if event.kind is EventKind.LAST_WRITE
            else event
            for event in record.events
        )
        return replace(record, events=events)

    told = _told(map(unread, _sent("a", 0, 60, 6, 0, 0.0)), is_one_sending_more=False)
    assert told["answers_delivered_over_1_s_late_last_60_s"] == "10"


def _store(database: Database, records: Iterable[RequestRecord]) -> None:
    batch = RecordBatch(gateway_id="gateway-0-9c1f", num_lost=0, records=tuple(records))
    with database.session() as session:
        store_batch(session, batch, Random(0), ReservoirSizes())


def test_a_tenant_that_floods_by_its_tokens_is_named_while_the_others_wait(
    engine: MetricsServer, tmp_path: Path
) -> None:
    begins, ends = 240.0, 330.0
    settings = AlwaysOnSettings(pass_seconds=15.0)
    with watched_fleet(tmp_path, BUILT_IN_RULES, settings) as fleet:
        fleet.runs(replica("chat-1", engine.address))
        usual = [
            *_sent("a", 0, begins, 6, 0, 0.1),
            *_sent("b", 0, begins, 5, 100, 0.1),
            *_sent("c", 0, begins, 8, 200, 0.1),
        ]
        flood = [
            *_sent("a", begins, ends, 6, 300, 9.0),
            *_sent("b", begins, ends, 5, 400, 9.0, num_tokens=30_000),
            *_sent("c", begins, ends, 8, 800, 9.0),
        ]
        pending = sorted([*usual, *flood], key=lambda record: record.arrived_at_unix_ns)

        def go_on() -> None:
            ended = [r for r in pending if r.arrived_at_unix_ns < fleet.now_ns]
            del pending[: len(ended)]
            if ended:
                _store(fleet.request_db, ended)
            seconds = (fleet.now_ns - START_NS) / 1e9
            late = max(0.0, seconds - begins)
            engine.page = vllm_page(
                running=3 + seconds / 5 % 2 if late == 0 else 8,
                waiting=round(late * 2),
                kv=0.3 + seconds % 7 / 100,
                preemptions=0,
                prompt=seconds * 400 + late * 900,
                generated=seconds * 30 + late * 120,
                finished=seconds * 0.5 + late * 2,
            )

        fleet.pass_for(begins, go_on)
        assert fleet.incidents() == []
        fleet.pass_for(ends - begins, go_on)
        last = fleet.diagnoses.find("chat")
        assert last is not None
        assert last.mechanism == "tenant.flood", last.diagnosis
