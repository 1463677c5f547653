"""The control plane's own burn rates and those of a real Prometheus are of the same requests."""

import time
from pathlib import Path
from random import Random

from controlplane.slo.alert_windows import HOUR
from ops.bench.bench_slo_agreement import even_stream, measure


def test_burn_rates_of_an_hour_and_more_agree_within_one_percent(tmp_path: Path) -> None:
    end = int(time.time()) // HOUR * HOUR
    start = end - 4 * HOUR
    found = measure(tmp_path, start, end, even_stream(start, end, 4.0, Random(3)))
    apart = {each.seconds: each.largest_share for each in found if each.seconds >= HOUR}
    assert set(apart) == {HOUR, 2 * HOUR}
    assert max(apart.values()) < 0.01, apart
    assert all(4.9 < each.burn_rate < 5.1 for each in found if each.seconds >= HOUR)
