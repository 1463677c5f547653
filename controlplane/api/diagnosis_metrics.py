"""Metrics about the diagnosis that is always on, and about what it found."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.datastructures import State

from controlplane.diagnosis.always_on.watcher import Watcher
from controlplane.diagnosis.always_on.worker import DiagnosisWorker
from controlplane.store.database import Database
from controlplane.store.incident_lists import count_open
from dataplane import names
from dataplane.clock import wall_clock


def collect_diagnosis(state: State) -> Iterator[Metric]:
    """Where it is off, only the incidents that are still open."""
    worker: DiagnosisWorker = state.diagnosis
    yield _open_incidents(state.config_db)
    if not worker.settings.is_on:
        return
    yield _ages(worker)
    yield CounterMetricFamily(
        names.CONTROLPLANE_DIAGNOSIS_FAILURES_TOTAL,
        "Passes over all deployments that ended with an error, and looks at one that did.",
        worker.num_failed_passes + worker.num_failed_looks,
    )
    yield _rule_failures(worker)
    if worker.watcher is not None:
        yield from _of_watcher(worker.watcher)
    if worker.pass_seconds is not None:
        yield GaugeMetricFamily(
            names.CONTROLPLANE_DIAGNOSIS_PASS_SECONDS,
            "How long the last pass over all deployments took.",
            worker.pass_seconds,
        )


def _of_watcher(watcher: Watcher) -> Iterator[Metric]:
    yield CounterMetricFamily(
        names.CONTROLPLANE_DIAGNOSIS_LOOKS_TOTAL,
        "Looks of the rules at a deployment.",
        watcher.num_looks,
    )
    yield CounterMetricFamily(
        names.CONTROLPLANE_DIAGNOSIS_SCRAPES_TOTAL,
        "Metrics pages of replicas that were asked for.",
        watcher.num_scrapes,
    )
    yield CounterMetricFamily(
        names.CONTROLPLANE_DIAGNOSIS_SCRAPES_FAILED_TOTAL,
        "Those of them that were not answered, or not with metrics.",
        watcher.num_failed_scrapes,
    )


def _open_incidents(database: Database) -> Metric:
    family = GaugeMetricFamily(
        names.CONTROLPLANE_INCIDENTS_OPEN,
        "Incidents that are open.",
        labels=(names.LABEL_DEPLOYMENT, names.LABEL_MECHANISM),
    )
    with database.reading() as session:
        counts = count_open(session)
    for (deployment, mechanism), number in sorted(counts.items()):
        none = names.NO_LABEL_VALUE
        family.add_metric((deployment or none, mechanism or none), number)
    return family


def _ages(worker: DiagnosisWorker) -> Metric:
    family = GaugeMetricFamily(
        names.CONTROLPLANE_DIAGNOSIS_AGE_SECONDS,
        "Time since the rules last looked at a deployment.",
        labels=(names.LABEL_DEPLOYMENT,),
    )
    now = wall_clock()
    for last in worker.diagnoses.all():
        family.add_metric((last.deployment,), max(0.0, (now - last.at_unix_ns) / 1e9))
    return family


def _rule_failures(worker: DiagnosisWorker) -> Metric:
    family = CounterMetricFamily(
        names.CONTROLPLANE_DIAGNOSIS_RULE_FAILURES_TOTAL,
        "Rules of diagnosis that failed.",
        labels=(names.LABEL_RULE,),
    )
    for fault in worker.guard.faults if worker.guard is not None else ():
        family.add_metric((fault.rule_id,), fault.num_times)
    return family
