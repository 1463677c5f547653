"""Metrics about the control plane's own alerting, so that a Prometheus can tell when it is dead."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.datastructures import State

from controlplane.operator.observed import ObservedState
from controlplane.slo.alerting_worker import AlertingWorker
from dataplane import names
from dataplane.clock import wall_clock


def collect_alerting(state: State) -> Iterator[Metric]:
    """Nothing of evaluations where they are off."""
    worker: AlertingWorker = state.alerting
    if worker.settings.is_on:
        yield from _evaluations(worker)
    yield from _notifiers(worker)
    yield _silences(state.observed)


def _evaluations(worker: AlertingWorker) -> Iterator[Metric]:
    if worker.last is not None:
        yield GaugeMetricFamily(
            names.CONTROLPLANE_SLO_EVALUATION_AGE_SECONDS,
            "Time since every objective was evaluated.",
            max(0.0, (wall_clock() - worker.last.at_unix_ns) / 1e9),
        )
    if worker.pass_seconds is not None:
        yield GaugeMetricFamily(
            names.CONTROLPLANE_SLO_EVALUATION_SECONDS,
            "How long the last evaluation of all objectives took.",
            worker.pass_seconds,
        )
    yield CounterMetricFamily(
        names.CONTROLPLANE_SLO_EVALUATION_FAILURES_TOTAL,
        "Evaluations that ended with an error.",
        worker.num_failed_passes,
    )


def _notifiers(worker: AlertingWorker) -> Iterator[Metric]:
    labels = (names.LABEL_NOTIFIER,)
    told = CounterMetricFamily(
        names.CONTROLPLANE_NOTICES_TOLD_TOTAL, "Messages that arrived.", labels=labels
    )
    failed = CounterMetricFamily(
        names.CONTROLPLANE_NOTICES_FAILED_TOTAL, "Attempts that failed.", labels=labels
    )
    due = GaugeMetricFamily(
        names.CONTROLPLANE_NOTICES_DUE, "Messages that could not be told yet.", labels=labels
    )
    for teller in worker.tellers:
        told.add_metric((teller.plan.name,), teller.state.num_told)
        failed.add_metric((teller.plan.name,), teller.state.num_failed)
        due.add_metric((teller.plan.name,), teller.state.num_due)
    yield from (told, failed, due)


def _silences(observed: ObservedState) -> Metric:
    family = GaugeMetricFamily(
        names.CONTROLPLANE_SILENCES,
        "Silences and maintenance windows in force, which keep notifications back.",
        labels=(names.LABEL_DEPLOYMENT, names.LABEL_KIND),
    )
    counts = Counter((each.scope.deployment or "", each.kind.value) for each in observed.silences())
    for labels, number in sorted(counts.items()):
        family.add_metric(labels, number)
    return family
