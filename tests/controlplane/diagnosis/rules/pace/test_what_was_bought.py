from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.rules.pace.precision import PRECISION
from controlplane.diagnosis.rules.pace.speculation import SPECULATION
from controlplane.diagnosis.window import Change
from dataplane.engine_metrics.signal import Signal, Unit
from tests.controlplane.diagnosis.rules.build_window import fact, series, told, window
from tests.controlplane.diagnosis.rules.evidence import reckoned

SPEED = Unit.TOKENS_PER_SECOND


def test_lower_precision_that_was_measured_and_is_no_faster() -> None:
    verdict = PRECISION.judge(
        window(
            fact("tpot_ms_bf16", 0.0075, unit=Unit.SECONDS),
            fact("tpot_ms_fp8", 0.0084, unit=Unit.SECONDS),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    faster = (fact("tok_s_fp16", 60, unit=SPEED), fact("tok_s_int4", 140, unit=SPEED))
    assert PRECISION.judge(window(*faster)) is None


def test_what_the_engine_says_makes_it_certain_and_alone_only_possible() -> None:
    line = "awq quantization is not fully optimized yet. The speed can be slower."
    slow = (fact("tok_s_unquantized", 98, unit=SPEED), fact("tok_s_awq", 60, unit=SPEED))
    both = PRECISION.judge(window(line, *slow))
    assert both is not None
    assert both.confidence is Confidence.CERTAIN
    alone = PRECISION.judge(window(line))
    assert alone is not None
    assert alone.confidence is Confidence.POSSIBLE
    assert any("unquantized" in need for need in alone.needs)


def test_a_speed_of_before_stands_against_what_is_measured_now() -> None:
    slower = (
        Change(at=-3600, what="--kv-cache-dtype bf16 -> fp8_e4m3"),
        series(Signal.GENERATION_RATE, 372, 372),
        series(Signal.RUNNING, 4, 4),
        fact("tok_s_same_batch_before", 451, unit=SPEED),
    )
    room = told(0, kv_pool_tokens_before=1_100_000, kv_pool_tokens_after=2_200_000)
    verdict = PRECISION.judge(window(*slower, room))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert PRECISION.judge(window(*slower)) is None, "what a change says is no figure"


def test_drafts_of_which_hardly_one_is_accepted() -> None:
    counted = (
        series(Signal.DRAFT_TOKENS, 42_272, 51_056),
        series(Signal.ACCEPTED_TOKENS, 0, 0),
    )
    verdict = SPECULATION.judge(window(*counted))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert {0, 51_056} <= reckoned(verdict)
    pays = (series(Signal.DRAFT_TOKENS, 0, 9000), series(Signal.ACCEPTED_TOKENS, 0, 6600))
    assert SPECULATION.judge(window(*pays)) is None


def test_a_moderate_share_asks_for_the_speed_without() -> None:
    some = (series(Signal.DRAFT_TOKENS, 0, 9000), series(Signal.ACCEPTED_TOKENS, 0, 2200))
    verdict = SPECULATION.judge(window(*some))
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
    assert "speed without speculation under the same load" in verdict.needs
    slower = (
        fact("tok_s_with_drafts", 30, unit=SPEED),
        fact("tok_s_without_drafts", 41, unit=SPEED),
    )
    measured = SPECULATION.judge(window(*some, *slower))
    assert measured is not None
    assert measured.confidence is Confidence.CERTAIN


def test_a_length_of_two_in_drafts_of_thirty_two_is_a_low_share() -> None:
    verdict = SPECULATION.judge(
        window(
            series(Signal.ACCEPTANCE_LENGTH, 2.5, 2.5),
            Change(at=-900, what="speculative decoding on (5 steps, 32 draft tokens)"),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY


def test_without_drafts_and_without_quantization_neither_has_a_say() -> None:
    calm = window(series(Signal.RUNNING, 4, 4), series(Signal.GENERATION_RATE, 200, 201))
    assert SPECULATION.judge(calm) is None
    assert PRECISION.judge(calm) is None


def test_one_setting_at_two_times_tells_with_drafts_from_without() -> None:
    without = told(0, speculation="off", requests_per_s=0.62)
    eagle = told(900, speculation="eagle, 2 steps, 4 draft tokens", requests_per_s=0.52)
    verdict = SPECULATION.judge(window(without, eagle))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    faster = told(900, speculation="eagle, 2 steps, 4 draft tokens", requests_per_s=0.92)
    assert SPECULATION.judge(window(without, faster)) is None


def test_one_token_for_each_verification_is_the_targets_own_whatever_the_width() -> None:
    verdict = SPECULATION.judge(window(series(Signal.ACCEPTANCE_LENGTH, 1.04, 1.05)))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert SPECULATION.judge(window(series(Signal.ACCEPTANCE_LENGTH, 2.4, 2.5))) is None
