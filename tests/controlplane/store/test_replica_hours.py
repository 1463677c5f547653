"""What replicas cost: from their start to their end, by the price that was in force then."""

import pytest

from controlplane.store.database import Database
from controlplane.store.replica_hours import ReplicaCost, read_replica_costs
from controlplane.store.replicas import ReplicaState, add_replica, move_replica
from controlplane.store.revisions import apply_documents
from dataplane.engine import ReplicaSpec
from tests.controlplane.config_documents import DEPLOYMENT, SERVICE, documents

HOUR = 3600 * 10**9
START = 500_000 * HOUR


def priced(price: str) -> str:
    return DEPLOYMENT.replace("replicas: 2", f"replicas: 2, replica_price: {price}")


def apply(database: Database, hour: float, *texts: str) -> None:
    with database.session() as session:
        apply_documents(
            session,
            documents(*texts),
            author="ann",
            reason="",
            clock=lambda: START + int(hour * HOUR),
        )


def run(database: Database, replica_id: str, since: float, until: float | None = None) -> None:
    spec = ReplicaSpec(
        replica_id=replica_id,
        deployment="chat",
        engine="paged",
        model_name="tiny",
        model_revision="tiny@1",
        engine_config_revision="paged@1",
        artifact="/models/tiny",
    )
    with database.session() as session:
        at = START + int(since * HOUR)
        add_replica(
            session, spec, spec_digest="d", launcher="local", reason="missing", now_unix_ns=at
        )
        if until is not None:
            ended_at = START + int(until * HOUR)
            for state in (ReplicaState.DRAINING, ReplicaState.STOPPED):
                move_replica(session, replica_id, state, reason="", now_unix_ns=ended_at)


def cost(database: Database, since: float, until: float) -> ReplicaCost:
    with database.reading() as session:
        found = read_replica_costs(session, START + int(since * HOUR), START + int(until * HOUR))
    assert list(found) == ["chat"]
    return found["chat"]


def test_every_hour_of_every_replica_costs_its_price_from_its_start_to_its_end(
    database: Database,
) -> None:
    apply(database, 0, *SERVICE[:-1], priced("{per_hour: 2.5, currency: EUR}"))
    run(database, "chat-1", 0, 3)
    run(database, "chat-2", 2)
    run(database, "chat-0", 0, 0.5)
    assert cost(database, 1, 5) == ReplicaCost(
        replica_seconds=5 * 3600, amount=12.5, currency="EUR"
    )


def test_an_hour_costs_what_the_revision_that_was_in_force_said(database: Database) -> None:
    apply(database, 0, *SERVICE[:-1], priced("{per_hour: 2}"))
    run(database, "chat-1", 0)
    apply(database, 4, priced("{per_hour: 3}"))
    assert cost(database, 0, 10).amount == pytest.approx(4 * 2 + 6 * 3)
    assert cost(database, 5, 6).amount == pytest.approx(3)


def test_what_has_no_price_has_no_cost_and_says_what_to_do(database: Database) -> None:
    apply(database, 0, *SERVICE)
    run(database, "chat-1", 0)
    unpriced = cost(database, 0, 2)
    assert (unpriced.amount, unpriced.replica_seconds) == (None, 7200)
    assert unpriced.why_no_amount == "no price: set replica_price in the Deployment"
    apply(database, 2, priced("{per_hour: 2}"))
    later = cost(database, 0, 3)
    assert later.amount is None
    assert later.why_no_amount == (
        "2.0 replica-hours were before it had a price: ask for a later time"
    )
    assert cost(database, 2, 3).amount == pytest.approx(2)


def test_prices_of_two_currencies_are_not_added_up(database: Database) -> None:
    apply(database, 0, *SERVICE[:-1], priced("{per_hour: 2, currency: EUR}"))
    run(database, "chat-1", 0)
    apply(database, 1, priced("{per_hour: 2, currency: USD}"))
    both = cost(database, 0, 2)
    assert (both.amount, both.currency) == (None, None)
    assert both.why_no_amount == "its price was in EUR and USD: ask for a time of one"
