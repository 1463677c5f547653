"""Percentiles from counts in buckets: never off by more than a bucket, and they add up."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from controlplane.store.latency_buckets import bucket_of, quantile, upper_bound

LATENCIES = st.lists(st.floats(min_value=0.0005, max_value=600), min_size=1, max_size=200)
_WIDTH = 2**0.25


@given(st.floats(min_value=0.0001, max_value=3600))
def test_a_latency_lies_within_its_bucket(seconds: float) -> None:
    bucket = bucket_of(seconds)
    assert upper_bound(bucket - 1) < seconds * 1.000001
    assert seconds <= upper_bound(bucket) * 1.000001


@given(LATENCIES, st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_a_percentile_is_off_by_less_than_a_bucket(seconds: list[float], share: float) -> None:
    exact = sorted(seconds)[max(0, -int(-share * len(seconds) // 1) - 1)]
    told = quantile(Counter(map(bucket_of, seconds)), share)
    assert told is not None
    assert exact / _WIDTH * 0.999 <= told <= exact * _WIDTH * 1.001


@given(LATENCIES, LATENCIES)
def test_counts_of_two_minutes_are_the_counts_of_both(one: list[float], other: list[float]) -> None:
    apart = Counter(map(bucket_of, one)) + Counter(map(bucket_of, other))
    assert quantile(apart, 0.95) == quantile(Counter(map(bucket_of, one + other)), 0.95)


def test_nothing_counted_has_no_percentile() -> None:
    assert quantile({}, 0.5) is None


def test_what_lies_beyond_every_bucket_is_counted_in_the_outermost() -> None:
    assert bucket_of(0.0) == bucket_of(-1.0) == bucket_of(1e-12)
    assert bucket_of(1e9) == bucket_of(1e12)
