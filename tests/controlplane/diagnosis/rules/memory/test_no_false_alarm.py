"""Memory that ran out elsewhere, long ago or for one request alone is no incident of the engine."""

from collections.abc import Sequence

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules import MEMORY
from controlplane.diagnosis.sources.joining import join
from controlplane.diagnosis.sources.log.reader import read_log
from controlplane.diagnosis.sources.part import Part
from dataplane.engine_metrics.signal import Signal, Unit
from tests.controlplane.diagnosis.rules.build_window import fact, series

_WORKS = (series(Signal.GENERATION_TOKENS, 10000, 13600, 17200, 20800),)
_STOPS = (series(Signal.GENERATION_TOKENS, 10000, 13600, 13600, 13600),)
_CHROME = "[12345.678] Out of memory: Killed process 4211 (chrome) total-vm:9000kB, anon-rss:35kB"
_ENGINE = _CHROME.replace("chrome", "VLLM::EngineCor")
_STATISTICS = (
    "INFO 03-02 04:{minute}:00 [loggers.py:123] Engine 000: Avg prompt throughput: 120.0 tokens/s, "
    "Avg generation throughput: 240.0 tokens/s, Running: 8 reqs, Waiting: 0 reqs, GPU KV cache "
    "usage: 20.0%, Prefix cache hit rate: 10.0%"
)
_SCRAP = (
    "ERROR 03-02 04:00:05 [serving_models.py:1] Traceback (most recent call last):\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total "
    "capacity of 79.25 GiB of which 10.00 MiB is free. Process 77 has 79.2 GiB memory in use. Of "
    "the allocated memory 78.00 GiB is allocated by PyTorch, and 500.00 MiB is reserved by PyTorch "
    "but unallocated."
)
_STARTED = "INFO 03-02 04:10:00 [api_server.py:1] Application startup complete."
_REFUSED = (
    "ValueError: Free memory on device (10.2/79.25 GiB) on startup is less than desired GPU memory "
    "utilization (0.9, 71.33 GiB)."
)


def _sure(
    log: str = "", told: Sequence[Fact] = (), counted: tuple[Series, ...] = ()
) -> set[Mechanism]:
    parts = [read_log(log)] if log else []
    window = join([*parts, Part(series=counted, facts=tuple(told), start=0, end=30)])
    verdicts = {rule.mechanism: rule.judge(window) for rule in MEMORY}
    return {
        mechanism
        for mechanism, verdict in verdicts.items()
        if verdict is not None and verdict.confidence > Confidence.POSSIBLE
    }


def _exit(**besides: str | int) -> tuple[Fact, ...]:
    return (
        fact("rss_gib", "63", 63 * 1024.0**3, Unit.BYTES),
        fact("memory_limit_gib", "64", 64 * 1024.0**3, Unit.BYTES),
        *(fact(key, value) for key, value in besides.items()),
    )


@pytest.mark.parametrize(
    "told",
    [
        (fact("sidecar_last_state", "OOMKilled"),),
        (fact("last_oom_killed", "3 days ago"),),
        (fact("oom_killed", "never"),),
        (fact("oom_killer", "enabled"),),
        (fact("last_state", "OOMKilled", at=30),),
        _exit(last_exit_code=137, last_exit_days_ago=12),
    ],
    ids=lambda told: told[-1].key,
)
def test_a_kill_of_others_or_of_before_is_none_of_an_engine_that_works(
    told: tuple[Fact, ...],
) -> None:
    assert not _sure(told=told, counted=_WORKS)


def test_code_137_is_no_want_of_memory_where_a_probe_is_the_reason() -> None:
    assert not _sure(told=_exit(exit_code=137, reason="Unhealthy: liveness probe failed"))
    assert _sure(told=_exit(exit_code=137)) == {Mechanism.OOM_HOST_MEMORY}


def test_the_victim_of_a_kernel_has_to_be_an_engine() -> None:
    assert not _sure(_CHROME, counted=_WORKS)
    assert not _sure(_CHROME)
    assert _sure(_ENGINE) == {Mechanism.OOM_HOST_MEMORY}
    assert _sure(_ENGINE, counted=_STOPS) == {Mechanism.OOM_HOST_MEMORY}


def test_memory_that_ran_out_for_what_the_process_outlived_was_refused() -> None:
    lines = [_STATISTICS.format(minute="00"), _SCRAP]
    assert _sure("\n".join(lines))
    assert not _sure("\n".join([*lines, _STATISTICS.format(minute="01")]))


def test_a_refusal_is_over_when_a_later_start_came_up() -> None:
    assert _sure(_REFUSED) == {Mechanism.OOM_FOREIGN_MEMORY}
    assert not _sure(f"{_REFUSED}\n{_STARTED}")
