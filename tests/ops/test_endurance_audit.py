"""The audit of an endurance run finds what is wrong: else its silence would mean nothing."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import delete, update

from controlplane.store.database import (
    Database,
    DatabaseKind,
    create_or_open_database,
    sqlite_url,
)
from controlplane.store.records import RecordBatch, store_batch
from controlplane.store.request_tables import GatewayLossRow, MinuteCountRow, RequestRow
from controlplane.store.reservoirs import ReservoirSizes
from dataplane.record import RequestRecord
from ops.endurance.attempt import Attempt, End, Kind, plan_attempt
from ops.endurance.audit import Accounts, Tally, audit
from ops.endurance.blows import Struck
from ops.endurance.cancel_plan import plan_cancel
from ops.sample_requests import Sample, answered

NOW_NS = 1_796_000_000 * 10**9


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    path = tmp_path / "requests.db"
    opened = create_or_open_database(sqlite_url(path), DatabaseKind.REQUESTS)
    yield opened
    opened.close()


def sample_attempt(number: int, record: RequestRecord) -> Attempt:
    """What the client of `record` would have seen."""
    return Attempt(
        number=number,
        kind=Kind.STREAM,
        trace_id=record.trace.trace_id,
        tenant="default",
        body=b"{}",
        is_stream=True,
        leaves_after_seconds=0.0,
        leaves_by_reset=False,
        ended_at_unix_ns=NOW_NS,
        has_sent_all=True,
        status=200,
        request_id=record.request_id,
        num_output_tokens=record.num_output_tokens,
        end=End.WHOLE,
    )


@pytest.fixture
def attempts(database: Database) -> list[Attempt]:
    """Three answered requests of one gateway, as their clients saw them."""
    records = [
        answered(Sample(sequence=number, arrived_at_unix_ns=NOW_NS, gateway_id="gateway-1"))
        for number in range(3)
    ]
    batch = RecordBatch(gateway_id="gateway-1", num_lost=0, records=tuple(records))
    with database.session() as session:
        store_batch(session, batch, Random(1), ReservoirSizes())
    return [sample_attempt(number, record) for number, record in enumerate(records)]


def wrong(
    database: Database,
    attempts: list[Attempt],
    *struck: Struck,
    num_arrived: int = 3,
    num_lost: int | None = 0,
) -> str:
    tally = Tally(num_arrived=num_arrived, num_lost=num_lost)
    accounts: Accounts = audit(database, attempts, struck, {"gateway-1": tally})
    return "\n".join(accounts.wrong)


def test_what_both_sides_tell_alike_is_in_order(
    database: Database, attempts: list[Attempt]
) -> None:
    assert wrong(database, attempts) == ""


def test_an_answered_request_without_a_record_is_found(
    database: Database, attempts: list[Attempt]
) -> None:
    with database.session() as session:
        session.execute(delete(RequestRow).where(RequestRow.gateway_sequence == 1))
    found = wrong(database, attempts)
    assert "no record of an attempt that ended with whole: 1" in found
    assert "gaps in the numbers of a gateway's records: 1 (such as gateway-1 1)" in found
    assert "minute counts of offered that differ from the rows" in found


def test_requests_that_a_gateway_counted_last_and_never_recorded_are_found(
    database: Database, attempts: list[Attempt]
) -> None:
    for num_lost in (0, None):
        found = wrong(database, attempts, num_arrived=5, num_lost=num_lost)
        assert found == (
            "gaps in the numbers of a gateway's records: 2 (such as gateway-1 3; gateway-1 4)"
        )
    assert wrong(database, attempts, num_arrived=2, num_lost=None) == "", "heard in mid-flight"


def test_a_gateway_of_which_no_request_is_on_record_is_found(
    database: Database, attempts: list[Attempt]
) -> None:
    tallies = {"gateway-2": Tally(num_arrived=1)}
    (found,) = audit(database, attempts, (), tallies).wrong
    assert "such as gateway-2 0" in found


def test_lost_records_are_found_and_must_be_told_alike(
    database: Database, attempts: list[Attempt]
) -> None:
    differs = "another number of lost records than the gateway told"
    assert f"{differs}: 1 (such as gateway-1 lost 2, on record 0)" in wrong(
        database, attempts, num_lost=2
    )
    with database.session() as session:
        session.add(GatewayLossRow(gateway_id="gateway-1", num_lost=2))
    found = wrong(database, attempts, num_lost=2)
    assert found == "gateways that lost records: 1 (such as gateway-1 2)"
    assert differs in wrong(database, attempts, num_lost=0)


def test_a_reset_excuses_only_who_left_before_anybody_could_read(
    database: Database, attempts: list[Attempt]
) -> None:
    left = dataclasses.replace(
        attempts[0],
        trace_id="f" * 32,
        status=None,
        request_id=None,
        end=End.LEFT,
        leaves_by_reset=True,
        began_at_unix_ns=NOW_NS - 10**8,
    )
    assert wrong(database, [*attempts, left]) == ""
    stayed = dataclasses.replace(left, began_at_unix_ns=NOW_NS - 3 * 10**9)
    assert "ended with left" in wrong(database, [*attempts, stayed])
    blow = Struck(role="gateway", name="gateway-0", signal_name="SIGKILL", at_unix_ns=NOW_NS)
    assert wrong(database, [*attempts, stayed], blow) == ""


def test_a_lost_count_is_found(database: Database, attempts: list[Attempt]) -> None:
    with database.session() as session:
        offered = MinuteCountRow.measure == "offered"
        session.execute(update(MinuteCountRow).where(offered).values(value=2))
    assert "minute counts of offered that differ" in wrong(database, attempts)


def test_another_story_than_the_clients_is_found(
    database: Database, attempts: list[Attempt]
) -> None:
    attempts[0].status = 503
    attempts[1].num_output_tokens = 1
    attempts[2].request_id = "another"
    found = wrong(database, attempts)
    assert "status 200 on record, 503 at the client" in found
    assert "another number of tokens" in found
    assert "another request id" in found


def test_a_client_that_was_cut_off_is_excused_only_while_its_gateway_ended(
    database: Database, attempts: list[Attempt]
) -> None:
    unseen = dataclasses.replace(
        attempts[0], trace_id="f" * 32, status=None, request_id=None, end=End.NO_ANSWER
    )
    blow = Struck(role="gateway", name="gateway-0", signal_name="SIGKILL", at_unix_ns=NOW_NS)
    assert "ended with no_answer" in wrong(database, [*attempts, unseen])
    assert wrong(database, [*attempts, unseen], blow) == ""
    elsewhere = dataclasses.replace(blow, role="replica", name="r-1")
    assert "ended with no_answer" in wrong(database, [*attempts, unseen], elsewhere)


def test_attempts_are_the_same_for_the_same_seed_and_of_every_kind() -> None:
    planned = [plan_attempt(7, number) for number in range(600)]
    assert planned == [plan_attempt(7, number) for number in range(600)]
    cancels = [plan_cancel(7, number) for number in range(600)]
    assert cancels == [plan_cancel(7, number) for number in range(600)]
    assert {attempt.kind for attempt in planned + cancels} == set(Kind)
