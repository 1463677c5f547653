"""How much request data there is, how long it is kept, and what is gone: for people and metrics."""

from collections.abc import Iterator
from dataclasses import dataclass

from fastapi import APIRouter, Request
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.datastructures import State

from controlplane.retention_worker import RetentionWorker
from controlplane.store.database import Database
from controlplane.store.removal import RemovedData, oldest_of
from controlplane.store.retention import Store
from dataplane import names

router = APIRouter(prefix="/api/v1", tags=["request data"])


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreView:
    """One store."""

    name: str
    kept_days: float
    oldest_unix_ns: int | None
    """When the oldest request in it arrived; None: it is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestDataView:
    """All of it."""

    stores: list[StoreView]
    num_bytes: int | None
    """On PostgreSQL an estimate; None: not measured yet."""
    max_bytes: int | None
    refusal: str | None
    """Why records are not taken now; None: they are."""
    num_refusals: int
    """Deliveries refused since the control plane started."""
    removed: list[RemovedData]
    removal_error: str | None
    """Why data that is due could not be removed at the last try."""


@router.get("/request-data")
def get_request_data(request: Request) -> RequestDataView:
    """How much request data is kept, for how long, and what was removed or refused."""
    database: Database = request.app.state.request_db
    worker: RetentionWorker = request.app.state.retention
    with database.reading() as session:
        oldest = oldest_of(session)
    return RequestDataView(
        stores=[
            StoreView(
                name=store.value,
                kept_days=worker.retention.days(store),
                oldest_unix_ns=oldest[store],
            )
            for store in Store
        ],
        num_bytes=worker.num_bytes,
        max_bytes=worker.retention.max_bytes,
        refusal=database.room.refusal,
        num_refusals=database.room.num_refusals,
        removed=worker.removed,
        removal_error=worker.error,
    )


def collect_request_data(state: State) -> Iterator[Metric]:
    """Metrics about it; none before the application runs."""
    database: Database = state.request_db
    worker: RetentionWorker = state.retention
    if worker.num_bytes is not None:
        yield GaugeMetricFamily(
            names.CONTROLPLANE_REQUEST_DATA_BYTES, "Size of the request data.", worker.num_bytes
        )
    removed = CounterMetricFamily(
        names.CONTROLPLANE_REQUEST_DATA_REMOVED_TOTAL,
        "Rows of request data that were removed.",
        labels=(names.LABEL_TABLE, names.LABEL_REASON),
    )
    for each in worker.removed:
        removed.add_metric((each.store, each.reason), each.num_rows)
    yield removed
    yield CounterMetricFamily(
        names.CONTROLPLANE_REQUEST_DATA_REFUSALS_TOTAL,
        "Deliveries of request data refused because there was no room.",
        database.room.num_refusals,
    )
    yield CounterMetricFamily(
        names.CONTROLPLANE_RETENTION_FAILURES_TOTAL,
        "Passes of the removal of request data that ended with an error.",
        worker.num_failed_passes,
    )
