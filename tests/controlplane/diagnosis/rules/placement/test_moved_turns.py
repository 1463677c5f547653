from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.rules.placement.wrong_worker import WRONG_WORKER
from controlplane.diagnosis.verdict import Verdict
from tests.controlplane.diagnosis.rules.build_window import told, window


def _judge(**values: float) -> Verdict | None:
    known = {
        "follow_up_turns": 4120,
        "follow_up_turns_sent_to_another_server": 354,
        "hit_rate": 0.89,
        "hit_rate_of_turns_on_same_server": 0.96,
        **values,
    }
    return WRONG_WORKER.judge(window(*told(600, **known)))


def test_turns_that_moved_explain_what_is_not_found() -> None:
    verdict = _judge()
    assert verdict is not None
    assert verdict.confidence >= Confidence.LIKELY


def test_as_much_found_by_all_or_far_less_has_another_cause() -> None:
    assert _judge(hit_rate=0.96) is None
    assert _judge(hit_rate=0.4) is None


def test_turns_that_changed_their_replica_are_counted_as_moved() -> None:
    known = told(
        600,
        turns=4000,
        turns_that_changed_replica=900,
        prefix_hit_rate=0.72,
        prefix_hit_rate_when_on_same_replica=0.92,
    )
    assert WRONG_WORKER.judge(window(*known)) is not None
