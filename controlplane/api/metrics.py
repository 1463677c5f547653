"""The control plane's own metrics, read from its state whenever they are asked for."""

from collections import Counter
from collections.abc import Iterable, Iterator

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.datastructures import State

from controlplane.api.alert_counters import collect_alerts
from controlplane.api.alerting_metrics import collect_alerting
from controlplane.api.diagnosis_metrics import collect_diagnosis
from controlplane.api.request_data import collect_request_data
from controlplane.api.rollout_metrics import collect_rollouts
from controlplane.api.span_counters import span_counters
from controlplane.operator.stray import StrayJudgement
from dataplane import names
from dataplane.access import AuthMode

router = APIRouter(tags=["health"])


class StateCollector(Collector):
    """Reads operator, replicas, gateways and snapshot from the application's state."""

    def __init__(self, state: State) -> None:
        self._state = state

    def collect(self) -> Iterable[Metric]:
        """A gateway that never reported has no age, a snapshot that was never built no version."""
        yield self._replicas()
        yield self._held()
        yield self._failures()
        yield self._strays()
        yield self._ages()
        yield from self._snapshot()
        operator = self._state.operator
        yield CounterMetricFamily(
            names.CONTROLPLANE_OPERATOR_PASSES, "Passes of the operator.", operator.num_passes
        )
        yield CounterMetricFamily(
            names.CONTROLPLANE_OPERATOR_FAILURES,
            "Passes of the operator that ended with an error.",
            operator.num_failed_passes,
        )
        yield from span_counters(self._state).collect()
        yield from collect_request_data(self._state)
        yield from collect_diagnosis(self._state)
        yield from collect_alerting(self._state)
        yield from collect_alerts(self._state)
        yield from collect_rollouts(self._state)

    def _replicas(self) -> Metric:
        family = GaugeMetricFamily(
            names.CONTROLPLANE_REPLICAS,
            "Replicas that have not ended.",
            labels=(names.LABEL_DEPLOYMENT, names.LABEL_STATE),
        )
        replicas = self._state.observed.replicas()
        counts = Counter((replica.deployment, replica.state) for replica in replicas)
        for labels, number in sorted(counts.items()):
            family.add_metric(labels, number)
        return family

    def _held(self) -> Metric:
        family = GaugeMetricFamily(
            names.CONTROLPLANE_DEPLOYMENT_HELD,
            "1 where no replica is started for now, since the last ones failed or none can be.",
            labels=(names.LABEL_DEPLOYMENT,),
        )
        for name in sorted(self._state.operator.holds):
            family.add_metric((name,), 1)
        return family

    def _failures(self) -> Metric:
        family = GaugeMetricFamily(
            names.CONTROLPLANE_DEPLOYMENT_FAILURES,
            "Replicas of a deployment that failed one after the other.",
            labels=(names.LABEL_DEPLOYMENT,),
        )
        for name, number in sorted(self._state.operator.failures.items()):
            family.add_metric((name,), number)
        return family

    def _strays(self) -> Metric:
        family = GaugeMetricFamily(
            names.CONTROLPLANE_STRAY_PROCESSES,
            "Processes that outlived their replica, or sit on the port of one.",
            labels=(names.LABEL_KIND,),
        )
        strays = self._state.observed.strays()
        there = Counter(each.kind for each in strays if each.ended_at_unix_ns is None)
        for kind in StrayJudgement:
            family.add_metric((kind.value,), there[kind])
        return family

    def _ages(self) -> Metric:
        family = GaugeMetricFamily(
            names.CONTROLPLANE_GATEWAY_REPORT_AGE_SECONDS,
            "Time since a gateway's last report.",
            labels=(names.LABEL_GATEWAY,),
        )
        ages: dict[str, float] = {}
        for report, age in self._state.observed.gateways():
            ages[report.name] = min(age, ages.get(report.name, age))
        for name, age in ages.items():
            family.add_metric((name,), age)
        return family

    def _snapshot(self) -> Iterator[Metric]:
        current = self._state.snapshots.current
        if current is not None:
            yield GaugeMetricFamily(
                names.CONTROLPLANE_SNAPSHOT_VERSION,
                "Version of the snapshot that gateways should enforce.",
                current.version,
            )


def create_registry(state: State) -> CollectorRegistry:
    """A registry of this application's own."""
    registry = CollectorRegistry()
    registry.register(StateCollector(state))
    return registry


@router.get("/metrics", response_class=PlainTextResponse)
def read_metrics(request: Request) -> Response:
    """Prometheus text."""
    text = generate_latest(request.app.state.registry)
    return Response(text, media_type=CONTENT_TYPE_LATEST)


@router.get("/healthz", response_class=PlainTextResponse)
def read_health(request: Request) -> Response:
    """200 while the process answers and its operator does its passes, 503 otherwise.

    Everybody may ask, so what the error says stands here only where nobody is told apart.
    """
    error = request.app.state.operator.error
    if error is not None:
        is_open = request.app.state.auth is AuthMode.OFF
        why = f": {error}" if is_open else "; the control plane's log says why"
        return Response(f"the operator's last pass failed{why}\n", 503, media_type="text/plain")
    return Response("ok\n", media_type="text/plain")
