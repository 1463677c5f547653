import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.rules.callers.generator import GENERATOR_BOUND
from controlplane.diagnosis.verdict import Verdict
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window


def _judge(*running: float, waiting: float = 0, **facts: object) -> Verdict | None:
    return GENERATOR_BOUND.judge(
        window(
            series(Signal.RUNNING, *running),
            series(Signal.WAITING, waiting, 0, 0),
            series(Signal.KV_USAGE, 0.2, 0.2, 0.2),
            told(20, max_num_seqs=256, **facts),
        )
    )


@pytest.mark.parametrize("tasks", ["client_tasks", "bench_coroutines", "threads_started_by_client"])
def test_a_client_with_fewer_connections_than_tasks_is_the_limit(tasks: str) -> None:
    verdict = _judge(100, 100, 100, **{tasks: 400, "open_connections_from_client": 100})
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


def test_as_many_connections_as_tasks_are_no_limit_of_the_client() -> None:
    assert _judge(100, 100, 100, client_tasks=100, open_connections_from_client=100) is None


def test_connections_that_fill_all_seats_are_no_limit_of_the_client() -> None:
    assert _judge(256, 256, 256, client_tasks=600, open_connections_from_client=256) is None


def test_connections_of_a_proxy_are_not_the_clients() -> None:
    verdict = _judge(100, 100, 100, client_tasks=400, open_connections_of_proxy=100)
    assert verdict is None or verdict.confidence is Confidence.POSSIBLE


def test_a_client_that_overfills_the_queue_is_not_what_holds_the_engine_back() -> None:
    assert _judge(128, 60, 3, waiting=100, prompts_not_yet_sent=5000) is None
