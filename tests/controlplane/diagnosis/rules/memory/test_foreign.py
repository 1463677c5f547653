import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.rules.memory.foreign import FOREIGN_MEMORY
from dataplane.engine_metrics.signal import Unit
from tests.controlplane.diagnosis.rules.build_window import Line, fact, said, window
from tests.controlplane.diagnosis.rules.evidence import cited, reckoned

GIB = 1024.0**3


def _refusal(free: float, total: float, share: float) -> Line:
    return said(
        LogKind.FREE_MEMORY_TOO_LITTLE,
        f"ValueError: Free memory on device cuda:0 ({free}/{total} GiB) on startup is less than "
        f"desired GPU memory utilization ({share}, {share * total:.2f} GiB).",
        free_bytes=free * GIB,
        total_bytes=total * GIB,
        wanted_bytes=share * total * GIB,
        share=share,
    )


def test_memory_in_use_before_the_start_is_somebody_elses() -> None:
    verdict = FOREIGN_MEMORY.judge(window(_refusal(30.0, 44.0, 0.9)))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    assert {14, 30} <= reckoned(verdict)


def test_what_the_driver_takes_of_an_empty_card_is_not_foreign() -> None:
    verdict = FOREIGN_MEMORY.judge(window(_refusal(23.4, 23.7, 0.99)))
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
    assert "processes that hold the device's memory" in verdict.needs


def _run_out(text: str, **fields: float) -> Line:
    return Line(
        text=f"torch.OutOfMemoryError: CUDA out of memory. {text}",
        kind=LogKind.OUT_OF_MEMORY,
        fields=fields,
    )


@pytest.mark.parametrize(
    ("known", "confidence"),
    [
        ((), Confidence.LIKELY),
        ((fact("pid_4711", "another service"),), Confidence.CERTAIN),
    ],
)
def test_another_process_that_is_listed_and_large_enough_is_the_cause(
    known: tuple[Fact, ...], confidence: Confidence
) -> None:
    verdict = FOREIGN_MEMORY.judge(
        window(
            _run_out(
                "Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.25 GiB of which "
                "0.50 GiB is free. Process 4711 has 30.10 GiB memory in use. Including non-PyTorch "
                "memory, this process has 48.50 GiB memory in use.",
                wanted_bytes=2 * GIB,
                total_bytes=79.25 * GIB,
                free_bytes=0.5 * GIB,
                process_bytes=48.5 * GIB,
            ),
            known,
        )
    )
    assert verdict is not None
    assert verdict.confidence is confidence
    assert 30.1 in reckoned(verdict)


def test_in_a_container_the_process_that_is_listed_is_the_failing_one() -> None:
    verdict = FOREIGN_MEMORY.judge(
        window(
            _run_out(
                "Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 44.53 GiB of which "
                "263.25 MiB is free. Process 3438115 has 44.25 GiB memory in use. Of the allocated "
                "memory 40.62 GiB is allocated by PyTorch, and 1.57 GiB is reserved by PyTorch but "
                "unallocated.",
                wanted_bytes=1.5 * GIB,
                total_bytes=44.53 * GIB,
                free_bytes=0.257 * GIB,
                allocated_bytes=40.62 * GIB,
                reserved_bytes=1.57 * GIB,
            )
        )
    )
    assert verdict is None


def test_neighbours_who_hold_less_than_was_missing_are_not_the_cause() -> None:
    verdict = FOREIGN_MEMORY.judge(
        window(
            _run_out(
                "Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 24.00 GiB of which "
                "9.00 GiB is free. Process 7 has 2.00 GiB memory in use. Including non-PyTorch "
                "memory, this process has 13.00 GiB memory in use.",
                wanted_bytes=20 * GIB,
                total_bytes=24 * GIB,
                free_bytes=9 * GIB,
                process_bytes=13 * GIB,
            )
        )
    )
    assert verdict is None


def test_a_reading_from_before_the_start_tells_who_had_it() -> None:
    failed = said(
        LogKind.OUT_OF_MEMORY,
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 18000.00 MiB on device 0: "
        "cudaMalloc failed: out of memory",
        wanted_bytes=18000 * 1024.0**2,
    )
    lines = (failed, "llama_model_load: error loading model: unable to allocate CUDA0 buffer")
    busy = fact("vram_used_before_mib", "9120", 9120 * 1024.0**2, Unit.BYTES)
    empty = fact("vram_used_before_mib", "4", 4 * 1024.0**2, Unit.BYTES)
    found = window(*lines, busy, engine="llama.cpp")
    verdict = FOREIGN_MEMORY.judge(found)
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert ("vram_used_before_mib", "9120") in cited(found, verdict)
    assert FOREIGN_MEMORY.judge(window(*lines, empty, engine="llama.cpp")) is None


def test_readings_of_a_profile_that_do_not_fit_together_mean_a_neighbour() -> None:
    verdict = FOREIGN_MEMORY.judge(
        window(
            "AssertionError: Error in memory profiling. Initial free memory 20.1 GiB, current free "
            "memory 25.3 GiB. This happens when other processes sharing the same container release "
            "GPU memory while vLLM is profiling during initialization."
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert 25.3 in reckoned(verdict)


def test_an_engine_that_runs_is_not_asked() -> None:
    assert FOREIGN_MEMORY.judge(window("INFO all is well")) is None


@pytest.mark.parametrize(("free", "is_foreign"), [(22.1, False), (14.0, True)])
def test_an_engines_own_contexts_before_its_weights_are_not_foreign(
    free: float, is_foreign: bool
) -> None:
    begun = said(
        LogKind.WEIGHTS_LOADING,
        f"Load weight begin. avail mem={free:.2f} GB",
        free_bytes=free * GIB,
    )
    failed = _run_out(
        "Tried to allocate 1.75 GiB. GPU 3 has a total capacity of 23.56 GiB of which 1.02 GiB is "
        "free.",
        wanted_bytes=1.75 * GIB,
        free_bytes=1.02 * GIB,
        total_bytes=23.56 * GIB,
    )
    verdict = FOREIGN_MEMORY.judge(window(begun, failed, engine="sglang"))
    assert (verdict is not None) is is_foreign
