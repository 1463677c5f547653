"""Keys that are like those of callers, clients, retries and late capacity, and tell of something
else: in a window where nothing else speaks for it they name no such trouble."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.window import Change
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window

_AT = 60.0
_ROOM: tuple[Series, ...] = (
    series(Signal.RUNNING, 8, 8, 8, every=30),
    series(Signal.WAITING, 0, 0, 0, every=30),
    series(Signal.KV_USAGE, 0.2, 0.21, 0.22, every=30),
    series(Signal.GENERATION_TOKENS, 0, 7200, 14400, every=30),
    series(Signal.FINISHED, 100, 115, 130, every=30),
)
_QUEUE: tuple[Series, ...] = (
    series(Signal.RUNNING, 8, 8, 8, every=30),
    series(Signal.WAITING, 5, 5, 5, every=30),
    series(Signal.KV_USAGE, 0.96, 0.97, 0.97, every=30),
    series(Signal.GENERATION_TOKENS, 0, 7200, 14400, every=30),
    series(Signal.FINISHED, 100, 115, 130, every=30),
)

Told = dict[str, object]
_LOOK_ALIKES: dict[str, tuple[Mechanism, tuple[Series, ...], Told]] = {
    "a table of kinds of tokens": (
        Mechanism.TENANT_FLOOD,
        _QUEUE,
        {"tokens": {"prompt": 900_000, "output": 20_000, "cached": 5000}},
    ),
    "a table of status codes": (
        Mechanism.TENANT_FLOOD,
        _QUEUE,
        {"requests_by_status": {"200": 950, "400": 10, "404": 3}},
    ),
    "a table of models, with waits of theirs": (
        Mechanism.TENANT_FLOOD,
        _QUEUE,
        {
            "requests_by_model": {"big": 950, "small": 30},
            "ttft_s_by_model": {"big": 9, "small": 4},
        },
    ),
    "one user has most of what a server with room does": (
        Mechanism.TENANT_FLOOD,
        _ROOM,
        {"top_user_share": 0.9, "timeouts": 1},
    ),
    "a service that is there for one tenant": (
        Mechanism.TENANT_FLOOD,
        _QUEUE,
        {"requests_by_tenant": {"prod": 900, "dev": 3, "ci": 2}},
    ),
    "the tenant's own waits": (
        Mechanism.TENANT_FLOOD,
        _ROOM,
        {"requests_by_tenant": {"prod": 90, "dev": 3, "ci": 2}, "tenant_prod_wait_p95_s": 40},
    ),
    "drafts that were rejected": (
        Mechanism.POLICY_REJECTING,
        _ROOM,
        {"rejected_drafts": 5400},
    ),
    "a number that is no status": (
        Mechanism.POLICY_REJECTING,
        _ROOM,
        {"build": "release 503 12 nightly"},
    ),
    "six refusals of five thousand": (
        Mechanism.POLICY_REJECTING,
        _ROOM,
        {"http_codes": "200: 5000, 429: 6", "max_in_flight": 64},
    ),
    "the engine's own lock": (
        Mechanism.LOAD_GENERATOR_BOUND,
        _ROOM,
        {"engine_core_gil_share": 0.97, "gpu_util_percent": 30},
    ),
    "clients who have nothing to ask": (
        Mechanism.LOAD_GENERATOR_BOUND,
        _ROOM,
        {"clients": 200, "open_connections": 60, "in_flight": 8},
    ),
    "two scripts of which one has more to do": (
        Mechanism.LOAD_GENERATOR_BOUND,
        _ROOM,
        {"script_a_requests": 100, "script_b_requests": 900, "nic": "25G"},
    ),
    "a client far away": (
        Mechanism.LOAD_GENERATOR_BOUND,
        _ROOM,
        {"client_rtt_ms": 180, "client_ttft_ms": 900, "engine_ttft_ms": 150},
    ),
    "blocks of a cache that is written to elsewhere": (
        Mechanism.DELIVERY_SLOW_CLIENT,
        _ROOM,
        {"itl_ms": 30, "remote_kv_write_blocks": 512},
    ),
    "an offload that stalls": (
        Mechanism.DELIVERY_SLOW_CLIENT,
        _ROOM,
        {"engine_itl_ms": 30, "kv_offload_write_stall_ms": 40},
    ),
    "a disk's queue and a log's": (
        Mechanism.DELIVERY_SLOW_CLIENT,
        _ROOM,
        {"engine_itl_ms": 30, "disk_write_queue": 4, "log_write_blocked": 2},
    ),
    "one caller overseas": (
        Mechanism.DELIVERY_SLOW_CLIENT,
        _ROOM,
        {"rtt_ms": "1, 1, 40", "engine_itl_ms": 20},
    ),
    "a packet on its way": (
        Mechanism.DELIVERY_SLOW_CLIENT,
        _ROOM,
        {"engine_itl_ms": 20, "send_queue_bytes": 4096},
    ),
    "a timeout that is set and kept": (
        Mechanism.QUEUE_RETRY_STORM,
        _ROOM,
        {"max_retries": 3, "request_timeout_s": 60, "retry_percent": 60},
    ),
    "turns that find little where three replicas are not seen": (
        Mechanism.ROUTING_WRONG_WORKER,
        (*_ROOM, series(Signal.HIT_RATE, 0.1, 0.1, 0.1, every=30)),
        {"history_share_percent": 80, "replicas": 4},
    ),
}


@pytest.mark.parametrize("what", _LOOK_ALIKES)
def test_a_key_that_tells_of_something_else_names_no_trouble(what: str) -> None:
    mechanism, seen, values = _LOOK_ALIKES[what]
    assert mechanism not in _found(*seen, told(_AT, **values))


def test_a_few_errors_since_ever_are_no_harm_of_a_replica_that_came_late() -> None:
    grown = Change(at=0, what="hpa scaled from 2 to 3")
    before = told(0, replicas_ready=2, request_rate=20)
    after = {"replicas_ready": 3, "request_rate": 9}
    few = _found(grown, before, told(90, **after, errors_total=3))
    many = _found(grown, before, told(90, **after, errors_total=340))
    assert Mechanism.CAPACITY_LATE not in few
    assert Mechanism.CAPACITY_LATE in many


def _found(*parts: Series | tuple[Fact, ...] | Change) -> set[Mechanism]:
    findings = diagnose(window(*parts), BUILT_IN_RULES).findings
    return {each.mechanism for each in findings if each.confidence >= Confidence.LIKELY}
