"""What became of the alerts that this process was told, for its metrics."""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.datastructures import State

from controlplane.api.alertmanager_payload import Refusal
from controlplane.store.alerting_heard import read_heard
from dataplane import names
from dataplane.clock import wall_clock


class AlertCounters:
    """Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._num_taken = 0
        self._refused: Counter[Refusal] = Counter(dict.fromkeys(Refusal, 0))

    def add(self, num_taken: int, refused: Mapping[Refusal, int]) -> None:
        """Of one delivery."""
        with self._lock:
            self._num_taken += num_taken
            self._refused.update(refused)

    def collect(self) -> Iterator[Metric]:
        """For Prometheus."""
        with self._lock:
            num_taken, refused = self._num_taken, sorted(self._refused.items())
        yield CounterMetricFamily(
            names.CONTROLPLANE_ALERTS_TAKEN_TOTAL,
            "Tellings of alerts that Alertmanager delivered.",
            num_taken,
        )
        family = CounterMetricFamily(
            names.CONTROLPLANE_ALERTS_REFUSED_TOTAL,
            "Alerts that were not taken.",
            labels=(names.LABEL_REASON,),
        )
        for reason, number in refused:
            family.add_metric((reason.value,), number)
        yield family


def collect_alerts(state: State) -> Iterator[Metric]:
    """What was told, and how long ago alerting itself was heard."""
    counters: AlertCounters = state.alert_counters
    yield from counters.collect()
    with state.config_db.reading() as session:
        heard = read_heard(session)
    last = max((each.heard_at_unix_ns for each in heard), default=None)
    if last is not None:
        yield GaugeMetricFamily(
            names.CONTROLPLANE_ALERTING_HEARD_AGE_SECONDS,
            "Time since Alertmanager last delivered the watchdog.",
            max(0.0, (wall_clock() - last) / 1e9),
        )
