from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.rules.pace.underfilled import UNDERFILLED
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window

LEFT = told(60, prompts_not_yet_sent=5000)


def _saw(*facts: tuple[Fact, ...]) -> Window:
    return window(
        series(Signal.RUNNING, 128, 70, 4, 128, 66, 3),
        series(Signal.WAITING, 100, 0, 0, 96, 0, 0),
        series(Signal.KV_USAGE, 0.4, 0.3, 0.02, 0.4, 0.3, 0.02),
        series(Signal.GENERATION_RATE, 2000, 1500, 90, 1990, 1480, 80),
        *facts,
    )


def _judge(*facts: tuple[Fact, ...]) -> Verdict | None:
    return UNDERFILLED.judge(_saw(*facts))


def test_an_engine_that_runs_empty_while_prompts_are_left_is_underfilled() -> None:
    diagnosis = diagnose(_saw(LEFT), BUILT_IN_RULES)
    assert diagnosis.mechanism is Mechanism.BATCH_UNDERFILLED
    assert [finding.mechanism for finding in diagnosis.findings] == [Mechanism.BATCH_UNDERFILLED]


def test_one_batch_at_a_time_is_enough_where_nobody_counts_what_is_left() -> None:
    verdict = _judge(told(60, batches_in_flight=1))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY


def test_waves_of_callers_who_have_nothing_left_to_send_are_no_batches() -> None:
    assert _judge() is None
    assert diagnose(_saw(), BUILT_IN_RULES).mechanism is not Mechanism.BATCH_UNDERFILLED


def test_several_batches_at_a_time_and_nothing_left_are_none() -> None:
    assert _judge(told(60, batches_in_flight=8, prompts_not_yet_sent=0)) is None


def test_a_job_that_runs_out_is_not_filled_again() -> None:
    verdict = UNDERFILLED.judge(
        window(
            series(Signal.RUNNING, 128, 70, 20, 4, 2),
            series(Signal.WAITING, 100, 0, 0, 0, 0),
            series(Signal.GENERATION_RATE, 2000, 1500, 500, 90, 50),
            LEFT,
        )
    )
    assert verdict is None or verdict.detail != "batch by batch"
