from dataclasses import replace

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.rules.healthy import HEALTHY
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.window import Doubt, DoubtKind
from dataplane.engine_metrics.signal import Signal, Unit
from tests.controlplane.diagnosis.rules.build_window import fact, said, series, told, window
from tests.controlplane.diagnosis.rules.evidence import cited, reckoned
from tests.controlplane.diagnosis.rules.histograms import histogram, with_histograms

BUSY: tuple[Series, ...] = (
    series(Signal.RUNNING, 39, 38, 39),
    series(Signal.WAITING, 3, 0, 2),
    series(Signal.KV_USAGE, 0.6, 0.6, 0.61),
    series(Signal.GENERATION_TOKENS, 0, 9000, 18000),
    series(Signal.PREEMPTIONS, 2, 2, 2),
    series(Signal.FINISHED, 10, 500, 1000),
)


def test_a_busy_engine_whose_queue_empties_is_well() -> None:
    verdict = HEALTHY.judge(window(*BUSY))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert verdict.detail == "busy"


def test_one_of_several_engines_speaks_for_no_other() -> None:
    other = Doubt(kind=DoubtKind.SEVERAL_ENGINES, name="http://10.0.0.7/metrics", what="two answer")
    verdict = HEALTHY.judge(replace(window(*BUSY), doubts=(other,)))
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
    assert verdict.needs


def test_honest_idleness_needs_somebody_who_says_that_nothing_is_asked() -> None:
    idle = (
        series(Signal.RUNNING, 0, 0, 0),
        series(Signal.WAITING, 0, 0, 0),
        series(Signal.KV_USAGE, 0, 0, 0),
        series(Signal.PREEMPTIONS, 0, 0, 0),
    )
    assert HEALTHY.judge(window(*idle)) is None
    verdict = HEALTHY.judge(window(*idle, fact("in_flight", 0, at=20)))
    assert verdict is not None
    assert verdict.detail == "idle"


def test_a_batch_that_empties_slows_in_all_and_not_for_each() -> None:
    verdict = HEALTHY.judge(
        window(
            series(Signal.RUNNING, 46, 28, 20, 11, every=2),
            series(Signal.WAITING, 0, 0, 0, 0, every=2),
            series(Signal.KV_USAGE, 0.19, 0.13, 0.11, 0.07, every=2),
            series(Signal.GENERATION_RATE, 1447, 1086, 769, 475, every=2),
        )
    )
    assert verdict is not None
    assert {31.5, 43.2} <= reckoned(verdict)


def test_any_symptom_silences_it() -> None:
    stuck = (series(Signal.RUNNING, 3, 3, 3), series(Signal.GENERATION_TOKENS, 9, 9, 9))
    waiting = series(Signal.WAITING, 0, 0, 0)
    assert HEALTHY.judge(window(*stuck, waiting)) is None
    assert HEALTHY.judge(window(*BUSY, said(LogKind.DIED, "EngineDeadError", at=9))) is None
    assert HEALTHY.judge(window(*BUSY, fact("timeouts_last_60_s", 12))) is None
    assert HEALTHY.judge(window(*BUSY, fact("in_flight", 900, at=20))) is None
    slower = (
        fact("itl_p50_ms_before", 0.02, unit=Unit.SECONDS),
        fact("itl_p50_ms", 0.09, unit=Unit.SECONDS),
    )
    assert HEALTHY.judge(window(*BUSY, *slower)) is None


def test_figures_that_nobody_gathers_without_a_reason_leave_it_open() -> None:
    verdict = HEALTHY.judge(window(*BUSY, fact("client_threads", 6)))
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
    same = (
        fact("ttft_p95_ms", 0.41, unit=Unit.SECONDS),
        fact("ttft_p95_ms_day_before", 0.40, unit=Unit.SECONDS),
    )
    as_before = HEALTHY.judge(window(*BUSY, *same))
    assert as_before is not None
    assert as_before.confidence is Confidence.LIKELY


def test_what_an_engine_says_of_itself_is_no_suspicion() -> None:
    """Its page, its start line and its description of itself are full of settings."""
    own = replace(fact("swap_space_bytes", 4294967296), place="http://host:8000/metrics")
    said_at_start = told(0, quantization="fp8", cpu_offload_gb=0, swap_space=4)
    verdict = HEALTHY.judge(window(*BUSY, own, said_at_start))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    asked = HEALTHY.judge(window(*BUSY, said_at_start, told(0, host_swap_gib=3)))
    assert asked is not None
    assert asked.confidence is Confidence.POSSIBLE


def test_it_steps_back_beside_any_cause() -> None:
    skewed = [
        series(Signal.RUNNING, 8, 27, engine="0", every=60),
        series(Signal.RUNNING, 8, 0, engine="1", every=60),
        series(Signal.RUNNING, 8, 0, engine="2", every=60),
        series(Signal.WAITING, 0, 0, every=60),
        series(Signal.GENERATION_TOKENS, 0, 9000, every=60),
    ]
    answer = diagnose(window(*skewed), BUILT_IN_RULES)
    assert answer.mechanism is Mechanism.ROUTING_SKEW
    assert Mechanism.HEALTHY not in {each.mechanism for each in answer.findings}


def test_an_empty_window_is_neither_well_nor_ill() -> None:
    answer = diagnose(window(), BUILT_IN_RULES)
    assert answer.mechanism is Mechanism.CANNOT_TELL
    assert answer.needs


def test_a_speed_that_is_as_expected_is_well_and_one_that_is_below_it_is_not() -> None:
    alone = (
        series(Signal.RUNNING, 1, 1, 1),
        series(Signal.WAITING, 0, 0, 0),
        series(Signal.KV_USAGE, 0.004, 0.005, 0.006),
        series(Signal.GENERATION_RATE, 28.1, 28.3, 28.2),
    )
    known = told(0, in_flight=1, client_concurrency=1, gpu_util=0.98)
    verdict = HEALTHY.judge(window(*alone, known, told(0, tokens_per_s_expected=28)))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    slow = HEALTHY.judge(window(*alone, known, told(0, tokens_per_s_expected=90)))
    assert slow is None or slow.confidence is Confidence.POSSIBLE


def test_first_tokens_of_which_some_come_very_late_are_a_symptom() -> None:
    late = with_histograms(
        window(*BUSY), histogram(Signal.TTFT, {0.5: 890, 2.5: 20, 10.0: 9, 80.0: 29})
    )
    assert HEALTHY.judge(late) is None
    even = with_histograms(window(*BUSY), histogram(Signal.TTFT, {0.5: 890, 2.5: 58, 80.0: 0}))
    assert HEALTHY.judge(even) is not None


def test_what_users_feel_by_the_engines_own_histograms_is_a_symptom() -> None:
    def with_one(signal: Signal, *observed: dict[float, int]) -> Verdict | None:
        return HEALTHY.judge(with_histograms(window(*BUSY), histogram(signal, *observed)))

    assert with_one(Signal.TTFT, {}, {12.0: 100}) is None
    assert with_one(Signal.GATEWAY_TTFT, {}, {12.0: 100}) is None
    assert with_one(Signal.TPOT, {}, {0.5: 100}) is None
    assert with_one(Signal.ITL, {}, {0.02: 930, 5.0: 70}) is None
    assert with_one(Signal.E2E, {}, {40.0: 900}) is None
    assert with_one(Signal.TTFT, {}, {0.5: 50}, {0.5: 50}, {2.0: 50}, {2.0: 50}) is None
    for signal, seconds in ((Signal.TTFT, 0.5), (Signal.ITL, 0.05), (Signal.E2E, 2.0)):
        assert with_one(signal, {}, {seconds: 1000}) is not None


def test_one_slow_scrape_says_less_than_the_gaps_where_they_are_measured() -> None:
    dips = (
        series(Signal.RUNNING, 3, 3, 3, 3, 3, 3),
        series(Signal.WAITING, 0, 0, 0, 0, 0, 0),
        series(Signal.PREEMPTIONS, 0, 0, 0, 0, 0, 0),
        series(Signal.GENERATION_TOKENS, 0, 900, 1800, 2700, 3600, 3700),
    )
    assert HEALTHY.judge(window(*dips)) is None
    gaps = histogram(Signal.ITL, {}, {0.05: 3600})
    assert HEALTHY.judge(with_histograms(window(*dips), gaps)) is not None


def test_a_long_prompt_may_take_as_long_as_it_takes_to_read() -> None:
    def of(prompt_tokens: int) -> Verdict | None:
        read = series(Signal.PROMPT_TOKENS, 0, 50 * prompt_tokens, 100 * prompt_tokens)
        first = histogram(Signal.TTFT, {}, {4.0: 50}, {4.0: 50})
        return HEALTHY.judge(with_histograms(window(*BUSY, read), first))

    assert of(500) is None
    assert of(16_000) is not None


def test_a_server_of_embeddings_reads_and_writes_nothing() -> None:
    found = window(
        series(Signal.RUNNING, 6, 6, 6),
        series(Signal.WAITING, 0, 0, 0),
        series(Signal.GENERATION_TOKENS, 0, 0, 0),
        series(Signal.PROMPT_TOKENS, 50_000, 140_000, 230_000),
        series(Signal.PREEMPTIONS, 0, 0, 0),
        series(Signal.FINISHED, 100, 190, 280),
    )
    verdict = HEALTHY.judge(found)
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    names = {name for name, _ in cited(found, verdict)}
    assert "test:prompt_tokens" in names
    assert "test:generation_tokens" not in names


def test_without_gauges_quick_answers_and_no_failure_are_well() -> None:
    served = told(0, in_flight=16, tokens_per_s=717, ttft_p95_ms=244, tpot_p99_ms=19, failures=0)
    between = (series(Signal.TRANSFER_QUEUE, 1), series(Signal.DECODE_QUEUE, 0))
    verdict = HEALTHY.judge(window(*between, served))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    failing = told(0, in_flight=16, tokens_per_s=717, ttft_p95_ms=244, failures=9)
    assert HEALTHY.judge(window(*between, failing)) is None


def test_memory_that_was_taken_and_levels_off_is_held_and_what_creeps_is_open() -> None:
    def reading(at: float, used: float, served: int) -> tuple[Fact, ...]:
        return told(at, gpu_memory_used_gb=used, requests_served=served, errors=0)

    flat = (reading(0, 20.9, 0), reading(3600, 20.9, 412))
    verdict = HEALTHY.judge(window(*flat))
    assert verdict is not None
    assert verdict.detail == "it holds what it took"
    levels = (reading(0, 12.2, 0), reading(600, 12.7, 12), reading(2100, 12.75, 40))
    assert HEALTHY.judge(window(*levels)) is not None
    creeps = (reading(0, 20.1, 0), reading(1800, 20.6, 140), reading(5400, 21.0, 420))
    assert HEALTHY.judge(window(*creeps)) is None


def test_an_engine_that_tried_again_by_itself_and_serves_is_well() -> None:
    failed = said(LogKind.OUT_OF_MEMORY, "cudaMalloc failed: out of memory", at=0)
    again = "compute buffer allocation failed, retrying without pipeline parallelism"
    serves = (
        said(LogKind.READY, "model loaded", at=1),
        said(LogKind.REQUEST_ENDED, "stop processing: n_tokens = 8120", at=45),
    )
    counted = told(120, requests_ok=1, requests_failed=0)
    verdict = HEALTHY.judge(window(failed, again, *serves, counted))
    assert verdict is not None
    assert verdict.detail == "it tried again, and serves"
    later = said(LogKind.OUT_OF_MEMORY, "CUDA error: out of memory", at=60)
    assert HEALTHY.judge(window(failed, again, *serves, later, counted)) is None


def test_requests_that_once_waited_while_nothing_ran_are_a_symptom() -> None:
    slept = (
        series(Signal.RUNNING, 0, 0, 2, 2),
        series(Signal.WAITING, 1, 1, 0, 0),
        series(Signal.KV_USAGE, 0, 0, 0.1, 0.1),
        series(Signal.GENERATION_TOKENS, 5, 5, 400, 900),
        series(Signal.PREEMPTIONS, 0, 0, 0, 0),
    )
    assert HEALTHY.judge(window(*slept)) is None
