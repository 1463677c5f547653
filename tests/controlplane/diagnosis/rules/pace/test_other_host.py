from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.rules.pace.host_bound import HOST_BOUND
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window

BATCH = (series(Signal.RUNNING, 8, 8, 8), series(Signal.WAITING, 0, 0, 0))
OLD = told(10, gpu="L40S", cpu="EPYC 7302", gpu_util=0.5, engine_cpu_percent=100, step_ms=90)


def _beside(**values: object) -> tuple[Fact, ...]:
    return told(20, **{"gpu": "L40S", "cpu": "EPYC 9575F", "gpu_util": 0.9, **values})


def test_the_same_card_is_faster_with_another_processor() -> None:
    verdict = HOST_BOUND.judge(window(*BATCH, *OLD, *_beside(step_ms=35)))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


def test_another_card_or_no_faster_step_is_no_proof_of_the_host() -> None:
    for beside in (_beside(gpu="H100", step_ms=35), _beside(step_ms=85)):
        verdict = HOST_BOUND.judge(window(*BATCH, *OLD, *beside))
        assert verdict is None or verdict.confidence < Confidence.LIKELY


def test_a_card_that_is_busy_on_both_hosts_waits_for_neither() -> None:
    busy = told(10, gpu="L40S", cpu="EPYC 7302", gpu_util=0.95, step_ms=90)
    assert HOST_BOUND.judge(window(*BATCH, *busy, *_beside(step_ms=35))) is None
