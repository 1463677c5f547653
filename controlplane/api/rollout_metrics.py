"""Metrics about rollouts, read from where they are stored: counts outlive a restart."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.datastructures import State

from controlplane.store.database import Database
from controlplane.store.rollout_counts import count_ended, count_living
from dataplane import names


def collect_rollouts(state: State) -> Iterator[Metric]:
    """Nothing is told of a deployment without one, and of an outcome that never was."""
    database: Database = state.config_db
    with database.reading() as session:
        living, ended = count_living(session), count_ended(session)
    gauge = GaugeMetricFamily(
        names.CONTROLPLANE_ROLLOUTS,
        "Rollouts that are under way.",
        labels=(names.LABEL_DEPLOYMENT, names.LABEL_STATE),
    )
    for labels, number in sorted(living.items()):
        gauge.add_metric(labels, number)
    counter = CounterMetricFamily(
        names.CONTROLPLANE_ROLLOUTS_ENDED_TOTAL,
        "Rollouts that are over.",
        labels=(names.LABEL_STATE, names.LABEL_REASON),
    )
    for labels, number in sorted(ended.items()):
        counter.add_metric(labels, number)
    yield from (gauge, counter)
