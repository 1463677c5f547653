"""What runs and waits, in whatever words somebody wrote it down."""

import pytest

from controlplane.diagnosis.sources.facts import facts_of
from controlplane.diagnosis.sources.joining import join
from controlplane.diagnosis.sources.scrapes import Snapshot, series_of
from controlplane.diagnosis.views.activity import activity_of
from controlplane.diagnosis.window import Window


def _window(**known: object) -> Window:
    return Window(start=0.0, end=1.0, facts=facts_of(known, 0.5))


@pytest.mark.parametrize(
    "key",
    [
        "in_flight",
        "inflight_total",
        "open_requests",
        "gateway_open_streams",
        "clients_in_flight_now",
    ],
)
def test_requests_in_flight_are_known_by_many_names(key: str) -> None:
    in_flight = activity_of(_window(**{key: 12})).in_flight
    assert in_flight is not None
    assert in_flight.last.value == 12


def test_a_name_that_repeats_itself_is_no_work_for_who_reads_it() -> None:
    """Read two ways at each repetition, it would take longer than anybody lives."""
    assert activity_of(_window(**{"ongoing" + "_inflight" * 20 + "_x": 12})).in_flight is None


def test_one_request_has_the_cache_of_one_replica_however_many_there_are() -> None:
    page = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="%d"} 1\n'
    parts = [
        series_of([Snapshot(at=1.0, text=page % blocks, labels={"replica": name})])
        for name, blocks in (("a", 1000), ("b", 2000))
    ]
    now = activity_of(join(parts))
    assert (now.capacity, now.room_of_one) == (48_000, 32_000)
