"""What does it cost to remember the trace of a request in the buckets of its latencies?

    .venv/bin/python ops/bench/bench_exemplars.py

One finished request is counted again and again by the metrics of a gateway, as it is and with the
exemplars taken out on their way to the histograms, by turns. Told is the processor time per request
of the quickest turn, which the machine's other work disturbed least.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

from prometheus_client import Histogram

from dataplane.gateway.metrics import GatewayMetrics
from dataplane.policy import EMPTY_SNAPSHOT
from dataplane.record import RequestRecord
from tests.dataplane.golden_request import golden_record

_observe = Histogram.observe


def main() -> None:
    """Measure by turns, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=5_000, help="in one turn")
    parser.add_argument("--turns", type=int, default=15)
    options = parser.parse_args()
    record = golden_record()
    with_them, without = [], []
    for _ in range(options.turns):
        with_them.append(_microseconds(record, options.requests, _observe))
        without.append(_microseconds(record, options.requests, _without_exemplar))
    dear, cheap = min(with_them), min(without)
    print(f"{dear:.1f} us with exemplars, {cheap:.1f} us without: {dear - cheap:.1f} us a request")


def _without_exemplar(histogram: Histogram, amount: float, exemplar: Any = None) -> None:
    _observe(histogram, amount)


def _microseconds(record: RequestRecord, number: int, observe: Callable[..., None]) -> float:
    metrics = GatewayMetrics(_no_report, lambda: 0, lambda: EMPTY_SNAPSHOT)
    Histogram.observe = observe  # type: ignore[method-assign]
    try:
        began = time.process_time()
        for _ in range(number):
            metrics.observe(record)
        return (time.process_time() - began) / number * 1e6
    finally:
        Histogram.observe = _observe  # type: ignore[method-assign]


def _no_report() -> Any:
    raise AssertionError("nothing is scraped here")


if __name__ == "__main__":
    main()
