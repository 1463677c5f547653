from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.rules.placement.skew import SKEW
from controlplane.diagnosis.verdict import Verdict
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window


def _judge(*held: tuple[float, float], every: float = 300, **known: object) -> Verdict | None:
    blocks = [
        series(Signal.KV_BLOCKS_HELD, *course, every=every, replica=f"90{index}")
        for index, course in enumerate(held)
    ]
    return SKEW.judge(window(*blocks, *told(every, **known)))


def test_two_of_five_ready_workers_hold_nothing_for_minutes() -> None:
    courses = ((6120, 6098), (6087, 6141), (6152, 6110), (0, 0), (0, 0))
    verdict = _judge(*courses, in_flight=256, workers_ready=5)
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    assert {"903", "904"} <= {each.place.removeprefix("replica ") for each in verdict.cited}


def test_who_is_not_ready_or_had_work_or_shares_little_is_not_left_out() -> None:
    courses = ((6120, 6098), (6087, 6141), (0, 0))
    assert _judge(*courses, in_flight=256, workers_ready=2) is None
    assert _judge(*courses[:2], (900, 0), in_flight=256, workers_ready=3) is None
    assert _judge(*courses, in_flight=5, workers_ready=3) is None
    assert _judge(*courses, every=5, in_flight=256, workers_ready=3) is None


def test_by_what_runs_where_all_are_known_to_be_ready() -> None:
    def judge(*known: Fact, start: float = 0) -> Verdict | None:
        running = [series(Signal.RUNNING, 40, 42, every=120, engine=str(rank)) for rank in range(3)]
        idle = series(Signal.RUNNING, 0, 0, every=120 - start, start=start, engine="3")
        return SKEW.judge(window(*running, idle, *told(120, in_flight=126), *known))

    verdict = judge(*told(120, ranks_ready=4))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    assert judge(*told(120, ranks_ready=4), start=110) is None
    assert judge() is None
