"""Limits that refuse, callers who take most, clients that measure themselves."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.callers import RULES
from controlplane.diagnosis.signal import Signal
from controlplane.diagnosis.window import Window
from tests.controlplane.diagnosis.rules.build_window import Line, said, series, told, window

ROOM = (
    series(Signal.RUNNING, 8, 9, every=60),
    series(Signal.WAITING, 0, 0, every=60),
    series(Signal.KV_USAGE, 0.12, 0.13, every=60),
)
FULL = (
    series(Signal.RUNNING, 64, 64, every=60),
    series(Signal.WAITING, 90, 95, every=60),
    series(Signal.KV_USAGE, 0.97, 0.98, every=60),
)
Part = Series | Line | tuple[Fact, ...]


def _likely(found: Window) -> set[Mechanism]:
    return {
        rule.mechanism
        for rule in RULES
        if (verdict := rule.judge(found)) is not None and verdict.confidence >= Confidence.LIKELY
    }


CASES: dict[str, tuple[Mechanism, tuple[Part, ...]]] = {
    "a limit of the engine's, beside room": (
        Mechanism.POLICY_REJECTING,
        (*ROOM, series(Signal.REJECTED, 10, 250, every=60, reason="queued_tokens")),
    ),
    "as many accepted as a limit lets in": (
        Mechanism.POLICY_REJECTING,
        (
            series(Signal.FINISHED, 128),
            series(Signal.FAILED, 372, reason="overloaded"),
            told(sent=500, max_concurrent_requests=128),
        ),
    ),
    "batch and queue stand exactly at a limit": (
        Mechanism.POLICY_REJECTING,
        (
            series(Signal.RUNNING, 4, 16),
            series(Signal.WAITING, 0, 150),
            told(15, http_503=211, max_num_queued_reqs=166),
        ),
    ),
    "one key of five holds what is in flight": (
        Mechanism.TENANT_FLOOD,
        (*FULL, told(in_flight_by_key={"nightly": 58, "web": 3, "bot": 2, "lab": 1, "app": 1})),
    ),
    "one of two by tokens and not by requests": (
        Mechanism.TENANT_FLOOD,
        (
            *FULL,
            told(
                requests_by_team={"legal": 412, "support": 409},
                prompt_tokens_by_team={"legal": 38100000, "support": 610000},
                support_wait_without_legal_s=0.4,
            ),
        ),
    ),
    "a share that somebody worked out": (
        Mechanism.TENANT_FLOOD,
        (*FULL, told(top_tenant_share_of_requests=0.91, other_tenants_ttft_p95_s=38)),
    ),
    "a generator without CPU that keeps no plan": (
        Mechanism.LOAD_GENERATOR_BOUND,
        (*ROOM, told(client_cpu_percent=100, target_rps=200, achieved_rps=61)),
    ),
    "another client at the same server": (
        Mechanism.LOAD_GENERATOR_BOUND,
        (
            *ROOM,
            told(bench_a_tokens_per_s=486, bench_b_tokens_per_s=44, bench_b_cpu_percent=100),
        ),
    ),
    "requests that never left the client": (
        Mechanism.LOAD_GENERATOR_BOUND,
        (
            *ROOM,
            told(simulated_users=200, established_connections=100, not_yet_sent_by_client=100),
        ),
    ),
}


@pytest.mark.parametrize("what", CASES)
def test_one_of_them_is_named_and_no_other(what: str) -> None:
    mechanism, parts = CASES[what]
    assert _likely(window(*parts)) == {mechanism}


INNOCENT: dict[str, tuple[Part, ...]] = {
    "a few refusals among many": (*ROOM, told(sent=20000, http_429=40)),
    "refusals of an engine that is full": (*FULL, told(sent=500, http_503=200)),
    "refusals that are retries": (*ROOM, told(sent=900, http_429=600, retries=550)),
    "callers who share evenly": (*FULL, told(requests_by_key={"a": 40, "b": 38, "c": 41})),
    "work that is spread over replicas": (*FULL, told(requests_by_replica={"r0": 90, "r1": 3})),
    "a full server and a busy client": (*FULL, told(client_cpu_percent=100)),
    "a front end without CPU": (*ROOM, told(api_server_cpu_percent=100, client_cpu_percent=95)),
}


@pytest.mark.parametrize("what", INNOCENT)
def test_what_only_looks_like_it_is_not_named(what: str) -> None:
    assert _likely(window(*INNOCENT[what])) == set()


def test_addresses_of_an_access_log_count_for_callers() -> None:
    lines = [
        said(LogKind.HTTP_ANSWERED, f'INFO: {host}:{port} - "POST /v1/completions HTTP/1.1" 200')
        for host, num in (("10.0.0.5", 50), ("10.0.0.6", 4), ("10.0.0.7", 3))
        for port in range(4000, 4000 + num)
    ]
    assert _likely(window(*lines, *FULL)) == {Mechanism.TENANT_FLOOD}
