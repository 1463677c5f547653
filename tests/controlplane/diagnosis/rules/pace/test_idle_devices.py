import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.pace.communication_bound import COMMUNICATION_BOUND
from controlplane.diagnosis.rules.pace.host_bound import HOST_BOUND
from controlplane.diagnosis.rules.pace.underfilled import UNDERFILLED
from dataplane.engine_metrics.signal import Signal, Unit
from tests.controlplane.diagnosis.rules.build_window import fact, series, told, window
from tests.controlplane.diagnosis.rules.evidence import cited, reckoned
from tests.controlplane.diagnosis.rules.histograms import histogram, with_histograms

ONE_SLOT: tuple[Series, ...] = (
    series(Signal.RUNNING, 1, 1, every=60),
    series(Signal.WAITING, 7, 7, every=60),
    series(Signal.GENERATION_TOKENS, 0, 1964, every=60),
)


def test_a_limit_that_neither_cache_nor_device_needs() -> None:
    verdict = UNDERFILLED.judge(window(*ONE_SLOT, fact("parallel", 1), fact("gpu_util", 0.35)))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert UNDERFILLED.judge(window(*ONE_SLOT, fact("parallel", 1), fact("gpu_util", 0.98))) is None
    unknown = UNDERFILLED.judge(window(*ONE_SLOT, fact("parallel", 1)))
    assert unknown is not None
    assert unknown.confidence is Confidence.POSSIBLE
    assert "how busy the device is" in unknown.needs


def test_few_at_a_time_to_an_idle_device_with_more_to_do() -> None:
    sending = (
        series(Signal.RUNNING, 2, 2, 2),
        series(Signal.WAITING, 0, 0, 0),
        fact("client_concurrency", 2),
        fact("rows_remaining", 90_000),
    )
    verdict = UNDERFILLED.judge(window(*sending, fact("gpu_util", 0.2)))
    assert verdict is not None
    assert verdict.detail == "the way of sending"
    assert UNDERFILLED.judge(window(*sending[:2], fact("gpu_util", 0.2))) is None


def test_room_that_is_promised_and_never_used() -> None:
    verdict = UNDERFILLED.judge(
        window(
            series(Signal.RUNNING, 370, 395, 399, 399, 399),
            series(Signal.WAITING, 646, 625, 625, 625, 625),
            series(Signal.KV_USAGE, 0.19, 0.2, 0.2, 0.2, 0.21),
            series(Signal.GENERATION_RATE, 8000, 8100, 8120, 8188, 8201),
            series(Signal.KV_CAPACITY, *[4_088_211] * 5),
            fact("max_running_requests", 8192),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert 10_246 in reckoned(verdict)


def test_a_busy_process_of_the_host_is_its_own_story() -> None:
    busy = fact("engine_core_cpu_percent", "100 %", 1.0, Unit.RATIO)
    slow = (fact("gpu_util", 0.4), fact("parallel", 1))
    assert UNDERFILLED.judge(window(*ONE_SLOT, busy, *slow)) is None


@pytest.mark.parametrize(
    "told",
    [
        (fact("gap_between_steps_ms", 0.014, unit=Unit.SECONDS),),
        (fact("cpu_overhead_share_of_step", "55 %", 0.55, Unit.RATIO),),
    ],
    ids=lambda told: told[0].key,
)
def test_a_step_that_is_the_hosts_for_a_good_part(told: tuple[Fact, ...]) -> None:
    kernels = fact("gpu_kernels_per_step_ms", 0.031, unit=Unit.SECONDS)
    verdict = HOST_BOUND.judge(window(series(Signal.RUNNING, 128, 128), *told, kernels))
    assert verdict is not None
    assert verdict.confidence >= Confidence.LIKELY


def test_a_full_core_beside_a_half_idle_device_needs_a_second_witness() -> None:
    half = (
        series(Signal.RUNNING, 1, 1),
        fact("engine_cpu_percent", "100 %", 1.0, Unit.RATIO),
        fact("gpu_util", 0.6),
    )
    alone = HOST_BOUND.judge(window(*half))
    assert alone is not None
    assert alone.confidence is Confidence.POSSIBLE
    other_host = (
        fact("latency_ms", 0.3, unit=Unit.SECONDS),
        fact("other_host_latency_ms", 0.1, unit=Unit.SECONDS),
    )
    witnessed = HOST_BOUND.judge(window(*half, *other_host))
    assert witnessed is not None
    assert witnessed.confidence is Confidence.LIKELY


def test_a_busy_device_does_not_wait_for_its_host() -> None:
    cpu = fact("engine_cpu_percent", "100 %", 1.0, Unit.RATIO)
    assert HOST_BOUND.judge(window(series(Signal.RUNNING, 8, 8), cpu, fact("gpu_util", 0.97))) is (
        None
    )


def test_one_replica_whose_steps_are_late_with_no_more_to_do() -> None:
    steps = [
        histogram(Signal.STEP_TIME, *[{bound: 50}] * 6, replica=name)
        for name, bound in (("a", 0.025), ("b", 0.1), ("c", 0.025))
    ]
    batches = [series(Signal.RUNNING, *[7] * 6, replica=name) for name in "abc"]
    verdict = HOST_BOUND.judge(with_histograms(window(*batches), *steps))
    assert verdict is not None
    assert verdict.detail == "b is slower than the others"
    longer = [*batches[:1], series(Signal.RUNNING, *[30] * 6, replica="b"), *batches[2:]]
    assert HOST_BOUND.judge(with_histograms(window(*longer), *steps)) is None


def test_collectives_that_take_half_of_a_step() -> None:
    step = fact("step_ms", 0.031, unit=Unit.SECONDS)
    verdict = COMMUNICATION_BOUND.judge(
        window(fact("all_reduce_ms_per_step", 0.0158, unit=Unit.SECONDS), step)
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    small = fact("all_reduce_ms_per_step", 0.002, unit=Unit.SECONDS)
    assert COMMUNICATION_BOUND.judge(window(small, step)) is None


def test_two_devices_that_are_no_faster_than_one() -> None:
    verdict = COMMUNICATION_BOUND.judge(
        window(
            fact("tok_s_tp1", 61, unit=Unit.TOKENS_PER_SECOND),
            fact("tok_s_tp2", 44, unit=Unit.TOKENS_PER_SECOND),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY


def test_a_slow_path_alone_asks_what_it_costs() -> None:
    line = "WARNING Custom allreduce is disabled because it's not supported on PCIe-only GPUs"
    verdict = COMMUNICATION_BOUND.judge(window(line, series(Signal.RUNNING, 4, 4)))
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
    assert "share of a step spent in collectives" in verdict.needs


def test_a_container_that_uses_all_its_cores_starves_the_device() -> None:
    shown = (
        series(Signal.RUNNING, 24, 25),
        series(Signal.WAITING, 0, 0),
        fact("gpu_util", 0.38, at=10),
        fact("cpu_cores_limit", 4, at=10),
    )
    found = window(*shown, fact("cpu_cores_used", 4.0, at=10))
    all_of_them = HOST_BOUND.judge(found)
    assert all_of_them is not None
    assert ("cpu_cores_used", "4") in cited(found, all_of_them)
    assert HOST_BOUND.judge(window(*shown, fact("cpu_cores_used", 1.5, at=10))) is None


def test_few_at_once_where_many_were_measured_to_do_far_more() -> None:
    few = (
        series(Signal.RUNNING, 5, 5, 5),
        series(Signal.WAITING, 0, 0, 0),
        series(Signal.KV_USAGE, 0.009, 0.009, 0.01),
        series(Signal.GENERATION_RATE, 134, 134, 134),
    )
    known = told(0, client_concurrency=5, max_num_seqs=256, gpu_util=0.97)
    verdict = UNDERFILLED.judge(window(*few, known, told(0, tokens_per_s_at_256=1275)))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert UNDERFILLED.judge(window(*few, known, told(0, tokens_per_s_at_256=150))) is None


def test_a_constant_batch_of_slow_steps_may_be_all_that_the_device_can_do() -> None:
    behind = (
        series(Signal.RUNNING, 50, 50, 50, every=30),
        series(Signal.WAITING, 77, 78, 78, every=30),
        series(Signal.KV_USAGE, 0.12, 0.12, 0.12, every=30),
    )
    quick = UNDERFILLED.judge(window(*behind, series(Signal.GENERATION_RATE, 2688, 2690, every=30)))
    slow = UNDERFILLED.judge(window(*behind, series(Signal.GENERATION_RATE, 300, 301, every=30)))
    assert quick is not None
    assert slow is not None
    assert (quick.confidence, slow.confidence) == (Confidence.LIKELY, Confidence.POSSIBLE)
