"""What a gateway shows of this moment: gauges of one report, which is read once for each scrape.

It is what the gateway tells the control plane too, so that the two cannot disagree, and all of it
is of one moment, so that invariant 5 holds within every scrape.
"""

import dataclasses
from collections import Counter as Counts
from collections.abc import Callable, Iterable

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dataplane import names
from dataplane.lifecycle import RequestCounts
from dataplane.report import GatewayReport


class ReportCollector(Collector):
    """Reads the report once and shows what is in it."""

    def __init__(
        self, read_report: Callable[[], GatewayReport], num_spans_dropped: Callable[[], int]
    ) -> None:
        self._read_report = read_report
        self._num_spans_dropped = num_spans_dropped

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering must not read a gateway that is not up yet."""
        return ()

    def collect(self) -> Iterable[Metric]:
        report = self._read_report()
        yield _requests(report.counts)
        yield _gauge(
            names.GATEWAY_REQUESTS_AT,
            "When that was, in Unix seconds.",
            report.reported_at_unix_ns / 1e9,
        )
        yield _gauge(names.GATEWAY_QUEUED, "Requests waiting for a slot.", report.num_queued)
        # With an empty queue there is no oldest request: the series is absent, not zero.
        if report.oldest_queued_seconds is not None:
            yield _gauge(
                names.GATEWAY_OLDEST_QUEUED_SECONDS,
                "How long the oldest of them has waited.",
                report.oldest_queued_seconds,
            )
        yield _gauge(names.GATEWAY_SNAPSHOT_VERSION, "Snapshot enforced.", report.snapshot_version)
        yield _gauge(
            names.GATEWAY_RECORDS_SPOOLED,
            "Records the control plane has not confirmed.",
            report.num_records_spooled,
        )
        yield CounterMetricFamily(
            names.GATEWAY_RECORDS_LOST_TOTAL,
            "Records that will never arrive.",
            report.num_records_lost,
        )
        yield GaugeMetricFamily(
            names.GATEWAY_HELD_BACK_REPLICAS,
            "Connected replicas that are sent nothing, or less than the others.",
            sum(each.held_back is not None for each in report.replicas),
        )
        yield from _holdings(report)
        yield _overrides(report)
        yield from _failures(report)
        yield from _unauthenticated(report)
        yield CounterMetricFamily(
            names.GATEWAY_SPANS_DROPPED_TOTAL, "Spans not exported.", self._num_spans_dropped()
        )


def _holdings(report: GatewayReport) -> Iterable[Metric]:
    for name, what, counts in (
        (names.GATEWAY_HELD, "What requests in flight hold: 0 without any.", report.held),
        (names.GATEWAY_REMEMBERED, "Entries that outlive requests, bounded.", report.remembered),
    ):
        if counts is not None:
            family = GaugeMetricFamily(name, what, labels=[names.LABEL_KIND])
            for kind, number in counts.items():
                family.add_metric([kind], number)
            yield family


def _overrides(report: GatewayReport) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        names.GATEWAY_OVERRIDES,
        "Break-glass overrides that this gateway enforces now.",
        labels=[names.LABEL_DEPLOYMENT, names.LABEL_KIND],
    )
    counted = Counts((each.deployment, each.kind) for each in report.overrides or ())
    for (deployment, kind), number in sorted(counted.items()):
        family.add_metric([deployment, kind], number)
    return family


def _failures(report: GatewayReport) -> Iterable[Metric]:
    """What went wrong beside the requests. Absent where it is not known."""
    for name, what, number in (
        (
            names.GATEWAY_RECORDS_REFUSED_TOTAL,
            "Records the control plane would never take; they count as lost too.",
            report.num_records_refused,
        ),
        (
            names.GATEWAY_JOURNAL_UNWRITTEN_TOTAL,
            "Changes of requests in flight that a crash would forget: the disk took no more.",
            report.num_journal_unwritten,
        ),
        (
            names.GATEWAY_REPORTS_REFUSED_TOTAL,
            "Reports the control plane answered with an error.",
            report.num_reports_refused,
        ),
    ):
        if number is not None:
            yield CounterMetricFamily(name, what, number)


def _unauthenticated(report: GatewayReport) -> Iterable[Metric]:
    if report.num_unauthenticated_by_code is None:
        return
    family = CounterMetricFamily(
        names.GATEWAY_UNAUTHENTICATED_TOTAL,
        "Calls without a valid key, by the code they were answered with. They are counted here "
        "alone, and not among the requests that arrived.",
        labels=[names.LABEL_CODE],
    )
    for code, number in sorted(report.num_unauthenticated_by_code.items()):
        family.add_metric([code], number)
    yield family


def _requests(counts: RequestCounts) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        names.GATEWAY_REQUESTS,
        "Where every request since the start stands, in one dated snapshot: arrived = "
        "invalid + undecided + rejected + admitted, admitted = active + finished.",
        labels=[names.LABEL_STATE],
    )
    for state, number in dataclasses.asdict(counts).items():
        family.add_metric([state], number)
    return family


def _gauge(name: str, what: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, what, value=value)
