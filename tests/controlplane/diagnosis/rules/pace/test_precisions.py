from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.rules.pace.host_bound import HOST_BOUND
from controlplane.diagnosis.rules.pace.precision import PRECISION
from controlplane.diagnosis.rules.pace.precisions import bits_of
from controlplane.diagnosis.views.device import device_usage
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window

RUNS = series(Signal.RUNNING, 128, 128)
SAID = "WARNING Your GPU does not have native support for FP4 computation. Weight-only FP4 is used"


def test_four_bits_are_held_against_eight_by_what_the_engine_says_runs_now() -> None:
    verdict = PRECISION.judge(window(RUNS, SAID, told(tps=900, tps_fp8=1500)))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


def test_four_bits_that_are_faster_than_eight_pay() -> None:
    assert PRECISION.judge(window(RUNS, SAID, told(tps=2100, tps_fp8=1500))) is None


def test_the_better_of_two_precisions_is_not_taken_for_the_lower() -> None:
    verdict = PRECISION.judge(window(RUNS, told(itl_ms_int4=20, itl_ms_fp8=31)))
    assert verdict is None or verdict.confidence is Confidence.POSSIBLE


def test_the_pace_of_another_precision_is_no_time_of_a_device() -> None:
    facts = told(itl_mean_ms=58, itl_mean_ms_fp8_compute=36)
    assert HOST_BOUND.judge(window(RUNS, facts)) is None


def test_the_name_of_a_card_says_not_how_busy_it_is() -> None:
    assert device_usage(window(told(gpu="2 x H200"))) is None


def test_a_kernel_is_no_precision() -> None:
    said = (
        "WARNING [marlin_utils_fp8.py:82] Your GPU does not have native support for FP8 computation"
        " but FP8 quantization is being used. Weight-only FP8 compression will be used leveraging"
        " the Marlin kernel."
    )
    assert bits_of(said) == 8
    assert bits_of("Using marlin kernel") is None
    verdict = PRECISION.judge(window(RUNS, said, told(tps=900, tps_fp8=1500)))
    assert verdict is None or verdict.confidence is Confidence.POSSIBLE
