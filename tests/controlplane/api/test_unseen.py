"""A request that was lost with its gateway: nothing is said of it that nobody saw."""

import json
from dataclasses import replace

import pytest
from rich.console import Console

from controlplane.api.request_views import RequestDetail, describe
from controlplane.cli.waterfall import render_request
from controlplane.store.request_rows import compact_row
from controlplane.store.request_tables import RequestRow
from dataplane.gateway.inflight import InFlightEntry, lost_record
from dataplane.record import RequestRecord
from ops.sample_requests import Sample, answered, rejected
from tests.dataplane.golden_request import TRACE

NOW_NS = 10**18
_FALSE_CLAIMS = ("never reached", "never scheduled", "no token", "held nothing", "no engine began")
ENTRY = InFlightEntry(
    request_id="request-7",
    gateway_id="gateway-0-0123456789ab",
    gateway_sequence=7,
    arrived_at_unix_ns=NOW_NS,
    endpoint="/v1/completions",
    trace=TRACE,
    deployment="chat",
)
SUBMITTED = replace(ENTRY, replica_ids=("chat-1",))
WRITTEN = replace(SUBMITTED, has_written=True, is_stream=True)
RETRIED = replace(WRITTEN, replica_ids=("chat-1", "chat-2"))


def seen(record: RequestRecord, is_whole: bool = True) -> RequestDetail:
    columns = compact_row(record)
    row = RequestRow(counted_output_tokens=columns.pop("num_output_tokens"), **columns)
    return describe(row, (record, "error") if is_whole else None, NOW_NS)


def words_of(detail: RequestDetail) -> str:
    """Everything that the API, the terminal and the words for the page say."""
    console = Console(width=120)
    with console.capture() as captured:
        console.print(render_request(detail, 120))
    request = detail.request
    reasons = (request.why_no_queue_time, request.why_no_ttft, request.why_no_e2e)
    told = [attempt.why_not_scheduled for attempt in detail.attempts]
    remarks = [*detail.life.remarks, *(phase.note for phase in detail.life.phases)]
    known = [f"{each.boundary}: {each.known}" for each in detail.boundaries]
    return json.dumps([captured.get(), reasons, told, remarks, known, request.delivery_text])


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("entry", [ENTRY, SUBMITTED, WRITTEN, RETRIED])
def test_nothing_is_claimed_that_the_journal_did_not_hold(
    entry: InFlightEntry, is_whole: bool
) -> None:
    detail = seen(lost_record(entry), is_whole)
    said = words_of(detail)
    assert [claim for claim in _FALSE_CLAIMS if claim in said] == []
    known = {each.boundary: each.known for each in detail.boundaries}
    assert known == {"engine": "unknown", "server": "unknown", "client": "not reported"}
    assert "What happened after the last event is not known." in said


def test_what_the_journal_held_is_told() -> None:
    assert "no replica had it yet" in words_of(seen(lost_record(ENTRY)))
    assert "a replica had been chosen" in words_of(seen(lost_record(SUBMITTED)))
    assert "had been written to its client" not in words_of(seen(lost_record(SUBMITTED)))
    for is_whole in (True, False):
        assert "had been written to its client" in words_of(seen(lost_record(WRITTEN), is_whole))
    assert seen(lost_record(WRITTEN)).request.delivery_text == "begun, how much is unknown"
    assert seen(lost_record(SUBMITTED)).request.delivery_text == "none noted"


def test_of_a_request_that_was_seen_to_its_end_what_did_not_happen_is_said_so() -> None:
    turned_away = seen(rejected(Sample(sequence=0, arrived_at_unix_ns=NOW_NS)))
    assert turned_away.request.why_no_queue_time == "it never reached an engine"
    known = {each.boundary: each.known for each in turned_away.boundaries}
    assert (known["engine"], known["server"]) == ("no token", "observed")
    whole = seen(answered(Sample(sequence=1, arrived_at_unix_ns=NOW_NS)))
    assert whole.request.delivery_text == "complete"
    assert [attempt.why_not_scheduled for attempt in whole.attempts] == [None]
