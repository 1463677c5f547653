"""What became of the spans that this process was sent, for its metrics."""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.datastructures import State

from dataplane import names

_FAMILIES = {
    names.CONTROLPLANE_SPAN_BATCHES_TOTAL: (names.LABEL_CODE, "OTLP requests, by HTTP status."),
    names.CONTROLPLANE_SPANS_TAKEN_TOTAL: (names.LABEL_SIDE, "Spans stored, by who tells them."),
    names.CONTROLPLANE_SPANS_JOINED_TOTAL: (names.LABEL_SIDE, "Spans whose request was found."),
    names.CONTROLPLANE_SPANS_IGNORED_TOTAL: (names.LABEL_REASON, "Spans passed over."),
    names.CONTROLPLANE_SPANS_DROPPED_TOTAL: (
        names.LABEL_REASON,
        "Spans that waited for a request that did not come.",
    ),
}


class SpanCounters:
    """Threads share it. A counter that never counted is absent, not zero."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals: Counter[tuple[str, str]] = Counter()
        self._num_waiting: int | None = None

    def add(self, family: str, amounts: Mapping[Any, int]) -> None:
        """Add to the counters of a family, by the value of its one label."""
        with self._lock:
            for label, amount in amounts.items():
                if amount:
                    self._totals[family, str(label)] += amount

    def set_waiting(self, number: int) -> None:
        """How many spans wait for their request."""
        self._num_waiting = number

    def total(self, family: str, label: str) -> int:
        """One counter."""
        return self._totals[family, label]

    def collect(self) -> Iterator[Metric]:
        """For Prometheus."""
        with self._lock:
            totals = sorted(self._totals.items())
        for family, (label_name, text) in _FAMILIES.items():
            metric = CounterMetricFamily(family, text, labels=(label_name,))
            for (name, label), total in totals:
                if name == family:
                    metric.add_metric((label,), total)
            yield metric
        if self._num_waiting is not None:
            yield GaugeMetricFamily(
                names.CONTROLPLANE_SPANS_WAITING,
                "Spans that wait for their request, when spans last came.",
                self._num_waiting,
            )


def span_counters(state: State) -> SpanCounters:
    """The application's."""
    counters: SpanCounters = state.span_counters
    return counters
