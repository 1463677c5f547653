"""Series that nobody reads are not shown."""

from prometheus_client import Counter, Histogram
from prometheus_client.exposition import generate_latest

from dataplane.metrics_registry import MetricsRegistry


def test_a_series_tells_its_value_and_no_time_of_birth() -> None:
    registry = MetricsRegistry()
    Counter("asked_total", "Asked.", ("who",), registry=registry).labels("me").inc()
    Histogram("took_seconds", "Took.", registry=registry, buckets=(1.0,)).observe(0.5)
    lines = generate_latest(registry).decode().splitlines()
    assert [line.split(" ")[0] for line in lines if not line.startswith("#")] == [
        'asked_total{who="me"}',
        'took_seconds_bucket{le="1.0"}',
        'took_seconds_bucket{le="+Inf"}',
        "took_seconds_count",
        "took_seconds_sum",
    ]
