from dataclasses import replace

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.rules.life.late import CAPACITY_LATE
from controlplane.diagnosis.rules.life.startup import STARTUP_SLOW
from controlplane.diagnosis.window import Change
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import Line, said, series, told, window
from tests.controlplane.diagnosis.rules.evidence import cited, reckoned

STARTING = said(LogKind.STARTING, "08:00:00 Initializing an engine", at=0)
READY = said(LogKind.READY, "Application startup complete.")


def _loaded(seconds: float, at: float) -> Line:
    return said(
        LogKind.WEIGHTS_LOADED, f"Model loading took {seconds} seconds", at=at, seconds=seconds
    )


def _initialized(seconds: float, at: float, compiled: float) -> Line:
    return said(
        LogKind.INITIALIZED,
        f"init engine took {seconds} s (compilation: {compiled} s)",
        at=at,
        seconds=seconds,
        compile_seconds=compiled,
    )


@pytest.mark.parametrize(
    ("stage", "parts"),
    [
        ("loading weights", (STARTING, _loaded(900, 905), _initialized(60, 970, 30), READY)),
        ("profiling and warm-up", (STARTING, _loaded(20, 25), _initialized(300, 330, 40), READY)),
        (
            "capturing graphs",
            (
                STARTING,
                _loaded(20, 25),
                said(LogKind.GRAPH_CAPTURE_FINISHED, "Capture end: 516.9 s", at=545, seconds=516.9),
                READY,
            ),
        ),
    ],
)
def test_the_stage_that_took_most_is_named(stage: str, parts: tuple[Line, ...]) -> None:
    verdict = STARTUP_SLOW.judge(window(*parts))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert verdict.detail == stage


def test_a_silence_before_a_stage_ended_belongs_to_that_stage() -> None:
    verdict = STARTUP_SLOW.judge(
        window(
            said(LogKind.STARTING, "08:00:11 using nccl", at=0),
            said(LogKind.WEIGHTS_LOADED, "09:13:40 Loading weights took 33.98 GB", at=4400),
            READY,
        )
    )
    assert verdict is not None
    assert verdict.detail == "loading weights"


def test_stages_that_somebody_measured_count() -> None:
    found = window(told(image_pull_s=412, weights_load_s=38, pod_start_to_ready_s=503))
    verdict = STARTUP_SLOW.judge(found)
    assert verdict is not None
    assert verdict.detail == "pulling the image"
    assert ("image_pull_s", "412 s") in cited(found, verdict)


@pytest.mark.parametrize(
    "parts",
    [
        (STARTING, _loaded(14, 20), _initialized(39, 69, 6), READY),
        (
            STARTING,
            _loaded(400, 405),
            READY,
            told(start_to_ready_s=405, start_to_ready_s_last_30_starts_p50=400),
        ),
        (STARTING, _loaded(300, 305), READY, told(weights_on_disk_gib=600)),
        (STARTING, _loaded(900, 905), said(LogKind.OUT_OF_MEMORY, "CUDA out of memory")),
    ],
    ids=["short", "as usual", "as fast as a disk", "failed"],
)
def test_a_start_that_is_as_it_should_be_is_not_slow(
    parts: tuple[Line | tuple[Fact, ...], ...],
) -> None:
    assert STARTUP_SLOW.judge(window(*parts)) is None


SCALED = Change(at=20, what="autoscaler sets replicas 1 -> 3")


def test_a_replica_that_is_ready_after_the_burst_is_late() -> None:
    verdict = CAPACITY_LATE.judge(
        window(
            SCALED,
            *(
                told(0, arrivals_per_s=9.4, pods_ready=1),
                told(90, arrivals_per_s=2.0, pods_ready=1),
            ),
            told(130, arrivals_per_s=2.1, pods_ready=3, client_timeouts=143),
            series(Signal.WAITING, 70, 400, every=80),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert {20, 130} <= reckoned(verdict)


def test_a_burst_that_is_shorter_than_a_start_cannot_be_met() -> None:
    verdict = CAPACITY_LATE.judge(
        window(told(replica_ready_after_s=240, burst_length_s=90, timeouts=88))
    )
    assert verdict is not None
    assert verdict.confidence >= Confidence.LIKELY


def test_replicas_that_are_in_time_are_not_late() -> None:
    in_time = window(
        SCALED,
        told(0, arrivals_per_s=9.4, pods_ready=1),
        told(30, arrivals_per_s=9.6, pods_ready=3),
        series(Signal.WAITING, 5, 6, 2, every=15),
    )
    assert CAPACITY_LATE.judge(in_time) is None


def test_load_without_a_decision_is_not_late_capacity() -> None:
    loaded = window(series(Signal.WAITING, 70, 400, every=80), told(arrivals_per_s=9.4))
    assert CAPACITY_LATE.judge(loaded) is None


def test_stages_in_one_sentence_count() -> None:
    phases = "image 30 s, weights 60 s, torch.compile 700 s, graphs 90 s"
    verdict = STARTUP_SLOW.judge(window(told(ready_after_s=920, phases=phases)))
    assert verdict is not None
    assert verdict.detail == "compiling"


def test_times_of_requests_in_a_sentence_are_no_stages() -> None:
    sentence = "ttft 3 s, e2e 40 s, queue 300 s"
    assert STARTUP_SLOW.judge(window(told(note=sentence, replicas=2))) is None


def test_the_same_load_from_a_faster_place_names_the_slow_one() -> None:
    from_nfs = told(300, event="load of the model gave up at 5 min", volume="NFS", page_cache_gb=37)
    verdict = STARTUP_SLOW.judge(window(from_nfs, told(650, load_s=4.2), told(900, load_s=11)))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert verdict.detail == "loading weights"
    alike = (told(300, load_s=280), told(650, load_s=240), told(900, load_s=260, volume="NFS"))
    assert STARTUP_SLOW.judge(window(*alike)) is None


@pytest.mark.parametrize(
    ("minutes", "confidence"), [(2, Confidence.LIKELY), (60, Confidence.POSSIBLE)]
)
def test_a_start_is_not_what_is_wrong_with_an_engine_that_has_served_for_long_since(
    minutes: int, confidence: Confidence
) -> None:
    parts = (STARTING, _loaded(900, 905), _initialized(60, 970, 30), READY)
    rate = series(Signal.GENERATION_RATE, *[300] * (6 * minutes), start=980)
    verdict = STARTUP_SLOW.judge(window(*parts, rate))
    assert verdict is not None
    assert verdict.confidence is confidence


def test_times_of_the_start_that_stand_on_a_page_for_ever_are_history_once_it_has_served() -> None:
    times = told(0, startup_time_seconds_load_weight=214.9, startup_time_seconds_cuda_graph=68.2)
    on_its_page = tuple(replace(each, place="http://host:30000/metrics") for each in times)
    fresh = series(Signal.GENERATION_TOKENS, 0, 0, 0)
    served = series(Signal.GENERATION_TOKENS, 9_000_000, 9_000_000, 9_000_000)
    assert STARTUP_SLOW.judge(window(fresh, on_its_page)) is not None
    assert STARTUP_SLOW.judge(window(served, on_its_page)) is None
