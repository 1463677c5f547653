import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.rules.placement.wrong_worker import WRONG_WORKER
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.window import Change
from tests.controlplane.diagnosis.rules.build_window import told, window

_GROWN = Change(at=-60, what="replicas 1 -> 2")
_SERVES = {"replica_a_sent": 40, "replica_a_answered": 39}


def _judge(*parts: Change, **values: object) -> Verdict | None:
    return WRONG_WORKER.judge(window(*told(0, **values), *parts))


def test_a_replica_that_starts_is_sent_what_it_cannot_answer_yet() -> None:
    verdict = _judge(
        _GROWN, **_SERVES, replica_b_sent=41, replica_b_answered=0, replica_b_ready=False
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


def test_a_table_of_replicas_says_the_same() -> None:
    verdict = _judge(
        _GROWN,
        sent={"vllm-0": 40, "vllm-1": 41},
        answered={"vllm-0": 39, "vllm-1": 0},
        ready={"vllm-0": True, "vllm-1": False},
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


@pytest.mark.parametrize(
    ("parts", "values"),
    [
        ((), {"replica_b_sent": 41, "replica_b_answered": 0, "replica_b_ready": False}),
        ((_GROWN,), {"replica_b_sent": 41, "replica_b_answered": 0, "replica_b_ready": True}),
        ((_GROWN,), {"replica_b_sent": 41, "replica_b_answered": 12, "replica_b_ready": False}),
        ((_GROWN,), {"replica_b_sent": 2, "replica_b_answered": 0, "replica_b_ready": False}),
    ],
    ids=["one that was ready before", "one that is ready", "one that answers", "hardly any sent"],
)
def test_it_is_another_trouble(parts: tuple[Change, ...], values: dict[str, object]) -> None:
    assert _judge(*parts, **_SERVES, **values) is None


def test_replicas_that_are_told_apart_by_being_ready() -> None:
    verdict = _judge(
        requests_to_ready_replicas=80,
        answers_from_ready_replicas=79,
        requests_to_unready_replicas=78,
        answers_from_unready_replicas=0,
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
