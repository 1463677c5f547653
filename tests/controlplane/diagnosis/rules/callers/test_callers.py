"""Limits that refuse, callers who take most, clients that measure themselves."""

from dataclasses import replace

import pytest

from controlplane.diagnosis.citing import changed
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules import CALLERS
from controlplane.diagnosis.sources.failed_scrapes import FAILURE_KEY, SILENT_KEY, UNANSWERED_KEY
from controlplane.diagnosis.window import Change, Window
from dataplane.engine_metrics.signal import Signal
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
        for rule in CALLERS
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
    "parts that are the whole together": (
        Mechanism.TENANT_FLOOD,
        (
            *FULL,
            told(in_flight=154, in_flight_summarizer=148, in_flight_chat=4, in_flight_coder=2),
            told(wait_p95_s_chat=212, wait_p95_s_chat_yesterday=2),
        ),
    ),
    "a team's share of the cache": (
        Mechanism.TENANT_FLOOD,
        (
            *FULL,
            told(kv_tokens_batch_team=410_000, kv_tokens_chat_team=9000),
            told(chat_team_ttft_s=22, chat_team_ttft_s_without_batch_team=0.7),
        ),
    ),
    "an address and the others": (
        Mechanism.TENANT_FLOOD,
        (
            *FULL,
            told(in_flight_from_10_0_4_17=147, in_flight_from_others=7, others_wait_s_p95=51),
        ),
    ),
    "prompts that are refused for their length, by the client's log": (
        Mechanism.POLICY_REJECTING,
        tuple(
            Line(text="400: maximum context length is 32768 tokens. You requested 41022")
            for _ in range(6)
        ),
    ),
    "two clients send the same": (
        Mechanism.LOAD_GENERATOR_BOUND,
        (*ROOM, told(tool_a_tokens_per_s=310, tool_b_tokens_per_s=1490, same_prompts=True)),
    ),
    "one client agrees with the server, another adds to it": (
        Mechanism.LOAD_GENERATOR_BOUND,
        (*ROOM, told(server_ttft_ms=233, plain_client_ttft_ms=235, bench_script_ttft_ms=435)),
    ),
    "a pause as long as a request between any two": (
        Mechanism.LOAD_GENERATOR_BOUND,
        (*ROOM, told(parallel=1, e2e_mean_s=0.74, gap_between_requests_s=0.92)),
    ),
    "fewer in flight than asked for, by rate times duration": (
        Mechanism.LOAD_GENERATOR_BOUND,
        (*ROOM, told(concurrency=64, requests_per_s=4.1, e2e_mean_s=2.2)),
    ),
    "it says so itself": (
        Mechanism.LOAD_GENERATOR_BOUND,
        (*ROOM, Line(text="WARN Insufficient VUs, reached 200 active VUs and cannot add more")),
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


def _sure(found: Window, mechanism: Mechanism) -> Confidence | None:
    rule = next(rule for rule in CALLERS if rule.mechanism is mechanism)
    verdict = rule.judge(found)
    return None if verdict is None else verdict.confidence


REFUSING = (*ROOM, series(Signal.REJECTED, 0, 40, every=60, reason="queue_full"))


def test_a_counter_that_happens_to_lie_over_some_threshold_proves_no_limit() -> None:
    coincidence = (
        series(Signal.PROMPT_TOKENS, 1000, 9000, every=60),
        told(60, watermark_fraction=0.9, max_num_batched_tokens=8192),
    )
    assert _sure(window(*REFUSING, *coincidence), Mechanism.POLICY_REJECTING) is Confidence.LIKELY


def test_a_limit_that_is_filled_to_the_last_place_is_certain_where_the_refusals_name_one() -> None:
    full = (series(Signal.RUNNING, 8, 9, every=60), series(Signal.WAITING, 60, 64, every=60))
    kv = series(Signal.KV_USAGE, 0.12, 0.13, every=60)
    named = series(Signal.REJECTED, 0, 40, every=60, reason="queue_full")
    unnamed = series(Signal.HTTP_ANSWERED, 0, 40, every=60, code="503")
    limit = told(60, max_queued_requests=64)
    assert _sure(window(*full, kv, named, limit), Mechanism.POLICY_REJECTING) is Confidence.CERTAIN
    assert _sure(window(*full, kv, unnamed, limit), Mechanism.POLICY_REJECTING) is Confidence.LIKELY


def test_what_was_accepted_is_held_against_a_limit_only_where_it_and_the_refused_are_all() -> None:
    finished = series(Signal.FINISHED, 0, 127, every=60)
    limit = told(60, max_concurrent_requests=128, sent=9000)
    assert _sure(window(*REFUSING, finished, limit), Mechanism.POLICY_REJECTING) is None
    all_sent = told(60, max_concurrent_requests=128, sent=167)
    found = window(*REFUSING, finished, all_sent)
    assert _sure(found, Mechanism.POLICY_REJECTING) is Confidence.CERTAIN


@pytest.mark.parametrize(
    ("without", "beside", "confidence"),
    [(0.4, 58, Confidence.CERTAIN), (1.0, 1.0, Confidence.POSSIBLE), (None, 58, Confidence.LIKELY)],
    ids=["much shorter without", "the same without", "nobody tried without"],
)
def test_a_flood_is_proven_by_how_long_others_wait_without_it(
    without: float | None, beside: float, confidence: Confidence
) -> None:
    calls = {"a": 70, "b": 20, "c": 10}
    facts = told(60, calls_by_tenant_last_180_s=calls, queue_wait_p50_s=beside)
    if without is not None:
        facts += told(60, queue_wait_p50_without_a_s=without)
    assert _sure(window(*FULL, facts), Mechanism.TENANT_FLOOD) is confidence


@pytest.mark.parametrize(
    ("other", "confidence"), [(900, Confidence.CERTAIN), (100, Confidence.LIKELY)]
)
def test_another_client_tells_of_the_first_by_how_much_more_it_gets(
    other: float, confidence: Confidence
) -> None:
    told_of_both = told(60, client_cpu=0.99, tokens_per_s=110, tokens_per_s_other_client=other)
    assert _sure(window(*ROOM, told_of_both), Mechanism.LOAD_GENERATOR_BOUND) is confidence


@pytest.mark.parametrize(
    "facts",
    [
        told(client_side_latency_ms=1790),
        told(ttft_ms_of_those_max=2218, ttft_ms_after=330, server_ttft_ms=329),
        told(concurrency=8, requests_per_s=4.1, e2e_mean_s=1.9),
    ],
    ids=["a latency is no lag", "two times of one client", "as many as asked for"],
)
def test_a_client_that_keeps_up_is_no_bottleneck(facts: tuple[Fact, ...]) -> None:
    assert Mechanism.LOAD_GENERATOR_BOUND not in _likely(window(*ROOM, facts))


_REFUSED = series(Signal.GATEWAY_REJECTED, 0, 200, every=60, reason="deadline_unreachable")
_SILENT = told(
    60,
    **{
        SILENT_KEY: {"chat-1": 50},
        FAILURE_KEY: {"chat-1": "no answer within 2 s"},
        UNANSWERED_KEY: 12,
    },
)


def test_what_is_refused_since_nobody_answers_is_no_limit_that_was_set() -> None:
    assert _likely(window(*ROOM, _REFUSED)) == {Mechanism.POLICY_REJECTING}
    assert _likely(window(*ROOM, _REFUSED, _SILENT)) == set()
    queue_full = series(Signal.GATEWAY_REJECTED, 0, 9, every=60, reason="queue_full")
    assert _likely(window(*ROOM, _REFUSED, queue_full, _SILENT)) == {Mechanism.POLICY_REJECTING}


def test_that_what_was_accepted_is_answered_is_said_only_where_it_is_seen() -> None:
    def weighed(*parts: Part) -> str:
        (verdict,) = (
            verdict
            for rule in CALLERS
            if rule.mechanism is Mechanism.POLICY_REJECTING
            and (verdict := rule.judge(window(*ROOM, _REFUSED, *parts))) is not None
        )
        return " ".join(verdict.against)

    assert "is answered" not in weighed()
    answers = series(Signal.GATEWAY_ENDED, 3, 40, every=60, name="ended", disposition="stop")
    assert "is answered (ended 3 -> 40 in 60 s)" in weighed(answers)


def test_when_something_was_changed_is_told_from_the_end_on_a_clock_that_nobody_reads() -> None:
    on_a_clock = replace(window(*ROOM), end=1_796_050_300.0)
    change = Change(at=1_796_050_270.0, what="deployed")
    assert changed(on_a_clock, change) == "30 s before the end: deployed"
    assert changed(window(*ROOM), Change(at=20.0, what="deployed")) == "20 s: deployed"
