"""Who used what and what it cost: added up from records, shared out by what engines measured."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from controlplane.api.request_query import QueryError
from controlplane.api.usage import parse_usage_query, read_view
from controlplane.api.usage_views import UsageRow, UsageView
from controlplane.store.database import Database, DatabaseKind
from controlplane.store.records import RecordBatch, ReservoirSizes, store_batch
from controlplane.store.replicas import add_replica
from controlplane.store.revisions import apply_documents
from dataplane.engine import ReplicaSpec
from dataplane.lifecycle import Observability
from dataplane.metering import Metered
from dataplane.record import RequestRecord
from ops.sample_requests import Sample, answered, invalid, rejected
from tests.controlplane.config_documents import DEPLOYMENT, SERVICE, documents
from tests.databases import Databases

HOUR = 3600 * 10**9
NOW_NS = 1_790_000_040 * 10**9
PRICED = DEPLOYMENT.replace("replicas: 2", "replicas: 2, replica_price: {per_hour: 8}")


@pytest.fixture
def config_db(databases: Databases) -> Iterator[Database]:
    made = databases.open(DatabaseKind.CONFIG)
    yield made
    made.close()


@pytest.fixture
def request_db(databases: Databases) -> Iterator[Database]:
    made = databases.open(DatabaseKind.REQUESTS)
    yield made
    made.close()


def took(
    sequence: int,
    seconds: float,
    *,
    hours_ago: float = 1,
    blocks: float | None = 0.0,
    **of: Any,
) -> RequestRecord:
    """A request that was answered and took so much of an engine."""
    at = NOW_NS - int(hours_ago * HOUR)
    word = Observability.INFERRED if blocks is None else Observability.OBSERVED
    record = answered(Sample(sequence=sequence, arrived_at_unix_ns=at, **of))
    metered = Metered(engine_seconds=seconds, engine_observability=word, kv_block_seconds=blocks)
    return replace(record, metered=metered)


def take(database: Database, *records: RequestRecord) -> None:
    with database.session() as session:
        batch = RecordBatch(gateway_id="g", num_lost=0, records=records)
        store_batch(session, batch, Random(1), ReservoirSizes())


def run_replica(database: Database, hours_ago: float, deployment: str = PRICED) -> None:
    """Two hours ago chat was given a price, and a replica that many hours ago."""
    with database.session() as session:
        texts = documents(*SERVICE[:-1], deployment)
        apply_documents(session, texts, author="ann", reason="", clock=lambda: NOW_NS - 100 * HOUR)
        add_replica(
            session,
            ReplicaSpec(
                replica_id="chat-1",
                deployment="chat",
                engine="paged",
                model_name="tiny",
                model_revision="tiny@1",
                engine_config_revision="paged@1",
                artifact="/models/tiny",
            ),
            spec_digest="d",
            launcher="local",
            reason="missing",
            now_unix_ns=NOW_NS - int(hours_ago * HOUR),
        )


def view(
    config_db: Database, request_db: Database, only_tenant: str | None = None, **asked: str
) -> UsageView:
    given = {name: asked.get(name) for name in ("deployment", "request_class", "tenant")}
    query = parse_usage_query(
        **given,
        since=asked.get("since"),
        until=asked.get("until"),
        by=asked.get("by"),
        now_unix_ns=NOW_NS,
        only_tenant=only_tenant,
    )
    return read_view(config_db, request_db, query)


def rows_by(found: UsageView) -> dict[str, UsageRow]:
    return {str(row.tenant or row.request_class or row.deployment): row for row in found.rows}


def test_use_adds_up_by_whatever_is_asked_for(config_db: Database, request_db: Database) -> None:
    take(
        request_db,
        took(1, 3.0, blocks=40.0),
        took(2, 1.0, blocks=10.0, request_class="batch"),
        took(3, 2.0, blocks=None, tenant="globex"),
        rejected(Sample(sequence=4, arrived_at_unix_ns=NOW_NS - HOUR)),
        invalid(Sample(sequence=5, arrived_at_unix_ns=NOW_NS - HOUR, deployment=None)),
    )
    acme = rows_by(view(config_db, request_db, by="tenant"))["acme"].used
    assert (acme.num_offered, acme.num_metered, acme.num_in_contract) == (3, 2, 2)
    assert (acme.input_tokens, acme.cached_tokens, acme.output_tokens) == (256, 128, 102)
    assert (acme.engine_seconds, acme.engine_seconds_inferred) == (4.0, 0.0)
    assert acme.kv_block_seconds == 50.0
    globex = rows_by(view(config_db, request_db, by="tenant"))["globex"].used
    assert (globex.engine_seconds, globex.engine_seconds_inferred) == (2.0, 2.0)
    assert globex.kv_block_seconds is None
    by_class = rows_by(view(config_db, request_db, by="class"))
    assert by_class["batch"].used.engine_seconds == 1.0
    assert len(view(config_db, request_db).rows) == 3
    take(request_db, rejected(Sample(sequence=6, arrived_at_unix_ns=NOW_NS - HOUR, tenant="new")))
    refused = rows_by(view(config_db, request_db, by="tenant"))["new"].used
    assert (refused.num_offered, refused.engine_seconds, refused.kv_block_seconds) == (1, 0.0, 0.0)
    assert len(view(config_db, request_db, tenant="globex").rows) == 1
    assert view(config_db, request_db, by="tenant").total.num_offered == 5


def test_minutes_and_whole_hours_count_once_and_nothing_outside_of_the_time_does(
    config_db: Database, request_db: Database
) -> None:
    for sequence in range(60):
        take(request_db, took(sequence, 1.0, hours_ago=sequence / 10 + 0.05))
    for since, expected in (("6h", 60), ("3h", 30), ("59m", 10), ("1d", 60), ("6m", 1)):
        total = view(config_db, request_db, since=since).total
        assert total.engine_seconds == expected, since
    assert view(config_db, request_db, since="6h", until="9999-12-31").end_unix_ns == NOW_NS
    window = view(config_db, request_db, since="4h", until="90m").total
    assert window.engine_seconds == 25


def test_the_cost_of_all_replica_hours_is_shared_out_by_what_was_measured(
    config_db: Database, request_db: Database
) -> None:
    run_replica(config_db, hours_ago=6)
    take(request_db, took(1, 300.0), took(2, 600.0, tenant="globex"), took(3, 900.0))
    found = view(config_db, request_db, since="1d", by="tenant")
    rows = rows_by(found)
    [whole] = found.deployments
    assert whole.cost.amount == pytest.approx(48.0)
    assert whole.cost.per_in_contract == pytest.approx(16.0)
    assert whole.idle_share == pytest.approx(1 - 1800 / (6 * 3600))
    acme, globex = rows["acme"].cost, rows["globex"].cost
    assert acme is not None
    assert globex is not None
    assert acme.amount == pytest.approx(32.0)
    assert globex.amount == pytest.approx(16.0)
    assert acme.per_in_contract == pytest.approx(16.0)
    assert acme.currency == "USD"


def test_a_deployment_that_nobody_used_costs_what_it_cost_and_all_of_it_was_idle(
    config_db: Database, request_db: Database
) -> None:
    run_replica(config_db, hours_ago=2)
    [whole] = view(config_db, request_db).deployments
    assert (whole.idle_share, whole.engine_seconds) == (1.0, 0.0)
    assert whole.cost.amount == pytest.approx(16.0)
    assert whole.cost.per_in_contract is None


def test_without_a_price_no_cost_is_told_and_the_reason_is(
    config_db: Database, request_db: Database
) -> None:
    run_replica(config_db, hours_ago=2, deployment=DEPLOYMENT)
    take(request_db, took(1, 300.0))
    found = view(config_db, request_db)
    [row] = found.rows
    assert row.cost is not None
    assert (row.cost.amount, row.cost.per_in_contract) == (None, None)
    assert row.cost.why_unknown == "no price: set replica_price in the Deployment"
    assert found.deployments[0].cost.why_unknown == row.cost.why_unknown


def test_requests_of_before_this_was_measured_are_unknown_and_not_zero(
    config_db: Database, request_db: Database
) -> None:
    run_replica(config_db, hours_ago=2)
    take(request_db, replace(took(1, 1.0), metered=None))
    found = view(config_db, request_db)
    [row] = found.rows
    assert (row.used.engine_seconds, row.used.kv_block_seconds) == (None, None)
    assert (row.used.num_metered, row.used.num_unmetered) == (0, 1)
    assert row.cost is not None
    assert row.cost.why_unknown == "nobody's use of the engines was measured"
    [whole] = found.deployments
    assert (whole.idle_share, whole.why_no_idle_share) == (None, "no request was measured")


def test_who_is_bound_to_a_tenant_sees_its_use_alone_and_no_cost(
    config_db: Database, request_db: Database
) -> None:
    run_replica(config_db, hours_ago=2)
    take(request_db, took(1, 300.0), took(2, 600.0, tenant="globex"))
    found = view(config_db, request_db, only_tenant="acme")
    [row] = found.rows
    assert (row.tenant, row.cost, found.deployments) == ("acme", None, [])
    assert found.total.engine_seconds == 300.0
    assert view(config_db, request_db, only_tenant="acme", tenant="globex").rows == []


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"by": "model"}, "by: 'model' is none of deployment, class, tenant"),
        ({"since": "yesterday"}, "since: 'yesterday' is neither an age"),
        ({"since": "1h", "until": "2h"}, "since: '1h' is later than until"),
        ({"since": "9999-01-01"}, "since: '9999-01-01' is still to come"),
    ],
)
def test_what_cannot_be_asked_is_told_with_what_can(
    config_db: Database, request_db: Database, asked: dict[str, str], says: str
) -> None:
    with pytest.raises(QueryError, match=says):
        view(config_db, request_db, **asked)
