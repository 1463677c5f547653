from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.rules.memory.fragmentation import FRAGMENTATION
from controlplane.diagnosis.rules.memory.prefill import PREFILL_TRANSIENT
from tests.controlplane.diagnosis.rules.build_window import Line, fact, said, window
from tests.controlplane.diagnosis.rules.evidence import reckoned

MIB = 1024.0**2
READY = said(LogKind.READY, "INFO:     Application startup complete.")


def _out(wanted: float, free: float, reserved: float) -> Line:
    return said(
        LogKind.OUT_OF_MEMORY,
        f"CUDA out of memory. Tried to allocate {wanted:.2f} MiB. GPU 0 has a total capacity of "
        f"20000.00 MiB of which {free:.2f} MiB is free. Of the allocated memory 18.40 GiB is "
        f"allocated by PyTorch, and {reserved:.2f} MiB is reserved by PyTorch but unallocated. "
        "If reserved but unallocated memory is large try setting "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
        wanted_bytes=wanted * MIB,
        free_bytes=free * MIB,
        reserved_bytes=reserved * MIB,
        total_bytes=20000 * MIB,
    )


def test_more_unallocated_than_wanted_is_fragmentation() -> None:
    verdict = FRAGMENTATION.judge(window(READY, _out(500, 300, 640)))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    assert {640, 500} <= reckoned(verdict)


def test_a_prefill_steps_back_where_the_gaps_would_have_been_enough() -> None:
    found = window(READY, "Prefill batch, #new-token: 8192", _out(500, 300, 640))
    verdict = PREFILL_TRANSIENT.judge(found)
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE


def test_fewer_unallocated_than_wanted_is_not() -> None:
    assert FRAGMENTATION.judge(window(READY, _out(500, 300, 420))) is None


def test_gaps_do_not_explain_a_failure_where_the_device_had_enough() -> None:
    assert FRAGMENTATION.judge(window(READY, _out(500, 700, 640))) is None


def test_gaps_during_a_capture_are_usual() -> None:
    capturing = said(LogKind.GRAPH_CAPTURE_STARTED, "Capturing CUDA graphs: 10%|1 | 1/10 [00:01]")
    verdict = FRAGMENTATION.judge(window(capturing, _out(20, 14, 300)))
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE


def test_segments_that_expand_already_speak_against_it() -> None:
    setting = fact("pytorch_cuda_alloc_conf", "expandable_segments:True")
    verdict = FRAGMENTATION.judge(window(READY, _out(500, 300, 640), setting))
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE


def test_what_older_allocators_hold_in_total_is_not_all_unallocated() -> None:
    old = said(
        LogKind.OUT_OF_MEMORY,
        "CUDA out of memory. Tried to allocate 500.00 MiB (GPU 0; 20.00 GiB total capacity; "
        "18.00 GiB already allocated; 300.00 MiB free; 18.80 GiB reserved in total by PyTorch)",
        wanted_bytes=500 * MIB,
        free_bytes=300 * MIB,
        allocated_bytes=18 * 1024 * MIB,
        pool_bytes=18.8 * 1024 * MIB,
    )
    verdict = FRAGMENTATION.judge(window(READY, old))
    assert verdict is not None
    assert {819.2, 500} <= reckoned(verdict)


def test_gaps_and_what_is_free_count_together_where_closing_gaps_helped() -> None:
    failed = (said(LogKind.WEIGHTS_LOADED, "Loading weights took 66 s"), _out(500, 300, 240))
    assert FRAGMENTATION.judge(window(*failed)) is None
    cured = fact("same_run_with_expandable_segments", "passes")
    verdict = FRAGMENTATION.judge(window(*failed, cured))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    assert not verdict.needs
