import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.rules.memory.host import HOST_MEMORY
from controlplane.diagnosis.rules.memory.load import LOAD
from dataplane.engine_metrics.signal import Signal, Unit
from tests.controlplane.diagnosis.rules.build_window import Line, fact, said, series, window
from tests.controlplane.diagnosis.rules.evidence import cited, repeated

GIB = 1024.0**3


def test_a_kernel_that_kills_for_memory_is_certain() -> None:
    saved = "prompt_save: - saving prompt, size = 3462.850 MiB"
    killed = "Out of memory: Killed process 77 (llama-server)"
    found = window(
        said(LogKind.HOST_STATE_SAVED, saved),
        said(LogKind.HOST_OUT_OF_MEMORY, killed),
        fact("cache_ram_mib", "2048", 2048 * 1024.0**2, Unit.BYTES),
        fact("gpu_memory", "flat"),
    )
    verdict = HOST_MEMORY.judge(found)
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    assert {saved, killed} <= repeated(found, verdict)
    assert ("cache_ram_mib", "2048") in cited(found, verdict)
    assert verdict.against


def test_a_container_that_was_killed_for_memory_is_certain_without_a_log() -> None:
    verdict = HOST_MEMORY.judge(window(fact("k8s_reason", "OOMKilled"), fact("exit_code", 137)))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


def test_code_137_alone_may_be_a_probe() -> None:
    verdict = HOST_MEMORY.judge(window(fact("container_exit_code", 137)))
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
    assert verdict.needs


def test_code_137_at_the_limit_is_likely() -> None:
    verdict = HOST_MEMORY.judge(
        window(
            fact("container_exit_code", 137),
            fact("memory_limit_gib", "6", 6 * GIB, Unit.BYTES),
            series(Signal.HOST_MEMORY_USED, 4 * GIB, 5 * GIB, 5.9 * GIB),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY


def test_a_kill_for_memory_that_did_not_happen_is_none() -> None:
    assert HOST_MEMORY.judge(window(fact("oom_killed", "false"))) is None


def test_a_failure_on_the_device_is_not_the_hosts() -> None:
    out = said(LogKind.OUT_OF_MEMORY, "torch.OutOfMemoryError: CUDA out of memory.")
    assert HOST_MEMORY.judge(window(out)) is None


MEMORY_ERROR = said(LogKind.HOST_OUT_OF_MEMORY, "MemoryError")
DIED = said(LogKind.DIED, "EngineCore encountered a fatal error")
SERVED = said(LogKind.HTTP_ANSWERED, '"POST /v1/completions HTTP/1.1" 200 OK')


@pytest.mark.parametrize(
    ("parts", "confidence"),
    [
        ((MEMORY_ERROR, DIED), Confidence.LIKELY),
        ((MEMORY_ERROR,), Confidence.LIKELY),
        ((MEMORY_ERROR, SERVED), Confidence.POSSIBLE),
        ((MEMORY_ERROR, *("another line",) * 30), Confidence.POSSIBLE),
        (("NCCL WARN Cuda failure", "Bus error (core dumped)", DIED), Confidence.POSSIBLE),
        (("systemd-oomd killed 3 processes",), Confidence.CERTAIN),
    ],
    ids=["it died", "the log ends", "it goes on", "much comes after", "a bus error", "a kill"],
)
def test_an_allocation_that_failed_counts_as_far_as_the_process_ended(
    parts: tuple[Line | str, ...], confidence: Confidence
) -> None:
    verdict = HOST_MEMORY.judge(window(*parts))
    assert verdict is not None
    assert verdict.confidence is confidence


def test_a_kill_by_the_node_is_no_failure_of_the_device_whatever_its_name() -> None:
    killed = said(
        LogKind.OUT_OF_MEMORY,
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
    )
    loading = said(LogKind.WEIGHTS_LOADING, "Loading safetensors checkpoint shards: 0% | 0/4")
    found = window(loading, killed, "(raylet) 1 Workers killed due to memory pressure (OOM)")
    assert LOAD.judge(found) is None
    verdict = HOST_MEMORY.judge(found)
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
