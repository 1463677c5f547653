"""Records of requests become courses, latencies, and who sent what to whom."""

from dataclasses import replace

from controlplane.diagnosis.reading import SourceKind
from controlplane.diagnosis.sources.joining import join
from controlplane.diagnosis.sources.records import part_of_records
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal
from dataplane.record import RequestRecord
from ops.sample_requests import Sample, answered, cancelled, failed, rejected, retried

START = 1_700_000_000


def _at(second: float, sequence: int, **fields: object) -> Sample:
    sample = Sample(sequence=sequence, arrived_at_unix_ns=int((START + second) * 1e9))
    return replace(sample, **fields)  # type: ignore[arg-type]


def _window(*records: RequestRecord) -> Window:
    part = part_of_records(records, START, START + 60, step_seconds=10)
    return join([part])


def test_what_was_under_way_follows_from_arrivals_and_ends() -> None:
    window = _window(
        answered(_at(1, 0, queue_seconds=10.5, num_output_tokens=20_000)),
        answered(_at(12, 1)),
        rejected(_at(31, 2)),
    )
    in_flight = window.find(Signal.GATEWAY_IN_FLIGHT)
    queued = window.find(Signal.GATEWAY_QUEUED)
    arrived = window.find(Signal.GATEWAY_ARRIVED)
    assert in_flight is not None
    assert queued is not None
    assert arrived is not None
    assert list(in_flight.values) == [0, 1, 1, 1, 0, 0, 0]
    assert list(queued.values) == [0, 1, 0, 0, 0, 0, 0]
    assert arrived.increase == 3
    assert arrived.origin.kind is SourceKind.RECORDS
    refused = window.find(Signal.GATEWAY_REJECTED)
    assert refused is not None
    assert refused.increase == 1


def test_latencies_are_histograms_of_what_ended() -> None:
    window = _window(*(answered(_at(each, each, queue_seconds=0.4)) for each in range(1, 11)))
    ttft = window.find_histogram(Signal.GATEWAY_TTFT)
    assert ttft is not None
    assert ttft.observed.count == 10
    mean = ttft.mean
    assert mean is not None
    assert 0.42 < mean < 0.44
    queue_time = window.find_histogram(Signal.GATEWAY_QUEUE_TIME)
    assert queue_time is not None
    assert queue_time.quantile(0.5) is not None


def test_tenants_shares_are_facts_of_parts() -> None:
    window = _window(
        *(answered(_at(each, each, tenant="flood", num_prompt_tokens=900)) for each in range(9)),
        answered(_at(20, 20, tenant="quiet", num_prompt_tokens=100)),
    )
    requests = window.facts_of("requests tenant")
    assert {fact.part: fact.value for fact in requests if fact.part} == {"flood": 9, "quiet": 1}
    assert {fact.over_seconds for fact in requests} == {60}
    tokens = {fact.part: fact.value for fact in window.facts_of("prompt tokens tenant")}
    assert (tokens["flood"], tokens["quiet"]) == (8100, 100)


def test_endings_and_further_attempts_are_told() -> None:
    window = _window(
        answered(_at(1, 0)), cancelled(_at(2, 1)), failed(_at(3, 2)), retried(_at(4, 3))
    )
    endings = {fact.part: fact.value for fact in window.facts_of("requests ending")}
    assert endings["cancelled"] == 1
    assert endings["error"] == 1
    assert window.number("further attempts") == 1
    ended = window.all_series(Signal.GATEWAY_ENDED, disposition="cancelled")
    assert [each.increase for each in ended] == [1]


def test_what_each_replica_had_is_apart_where_there_are_several() -> None:
    one = replace(answered(_at(5, 0, num_output_tokens=20_000)), replica_ids=("replica-1",))
    two = replace(answered(_at(5, 1)), replica_ids=("replica-2",))
    window = _window(one, two)
    running = window.all_series(Signal.RUNNING, replica="replica-1")
    assert [list(each.values) for each in running] == [[0, 1, 1, 0, 0, 0, 0]]
    shares = {fact.part: fact.value for fact in window.facts_of("requests replica")}
    assert (shares["replica-1"], shares["replica-2"]) == (1, 1)


def test_without_requests_there_is_the_stretch_of_time_alone() -> None:
    assert _window() == Window(start=START, end=START + 60)
