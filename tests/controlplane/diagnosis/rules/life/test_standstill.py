"""Nothing moves: what hangs, what is never let go, what is merely frozen, and what is not known."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series, SourceKind
from controlplane.diagnosis.rules.life.hung import HUNG
from controlplane.diagnosis.rules.life.leak import LEAK
from controlplane.diagnosis.rules.telemetry.stale import STALE
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import Line, said, series, told, window
from tests.controlplane.diagnosis.rules.evidence import cited, reckoned, repeated

RUNNING = series(Signal.RUNNING, 4, 4, 4, every=60, name="vllm:num_requests_running")
WAITING = series(Signal.WAITING, 2, 2, 2, every=60, name="vllm:num_requests_waiting")
KV = series(Signal.KV_USAGE, 0.3, 0.3, 0.3, every=60, name="vllm:kv_cache_usage_perc")
STILL = series(Signal.GENERATION_TOKENS, 900, 900, 900, every=60, name="vllm:generation_tokens")
MOVING = series(Signal.GENERATION_TOKENS, 900, 1800, 2700, every=60, name="vllm:generation_tokens")
STUCK = (RUNNING, WAITING, KV, STILL)

Part = Series | Line | tuple[Fact, ...]


def _likely(found: Window) -> dict[Mechanism, Verdict]:
    return {
        rule.mechanism: verdict
        for rule in (HUNG, LEAK, STALE)
        if (verdict := rule.judge(found)) is not None and verdict.confidence >= Confidence.LIKELY
    }


WATCHDOG = said(LogKind.NO_PROGRESS, "Watchdog timeout (self.watchdog_timeout=300)", at=120)
ORPHAN = said(LogKind.OUTPUT_WITHOUT_OWNER, "Received output for rid='a' but the state was deleted")
CASES: dict[str, tuple[Mechanism, tuple[Part, ...]]] = {
    "somebody waits and a probe is not answered": (
        Mechanism.ENGINE_HUNG,
        (*STUCK, told(120, in_flight=6, probe="no answer in 30 s")),
    ),
    "somebody waits for minutes while the cache does not fill": (
        Mechanism.ENGINE_HUNG,
        (*STUCK, told(120, open_requests=6)),
    ),
    "the engine's own watchdog says so": (
        Mechanism.ENGINE_HUNG,
        (*STUCK, WATCHDOG, told(120, outstanding=6)),
    ),
    "a slot began and never ended": (
        Mechanism.ENGINE_HUNG,
        (
            said(LogKind.PROMPT_STARTED, "slot launch_slot_: id 0 | task 7 | processing task"),
            told(900, in_flight=1, last_token_age_s=880, slots_endpoint="no answer in 15 s"),
        ),
    ),
    "nobody waits, a probe is answered, nothing is computed": (
        Mechanism.TELEMETRY_STALE,
        (*STUCK, told(120, in_flight=0, one_token_probe_ms=210)),
    ),
    "nobody waits and nothing is computed": (
        Mechanism.TELEMETRY_STALE,
        (*STUCK, told(120, in_flight=0)),
    ),
    "nobody waits and it is computed": (
        Mechanism.RELEASE_LEAK,
        (RUNNING, WAITING, KV, MOVING, told(120, in_flight=0, client_disconnects=4)),
    ),
    "one waits behind what its caller left": (
        Mechanism.RELEASE_LEAK,
        (
            series(Signal.RUNNING, 1, 1, 1, every=60),
            series(Signal.WAITING, 0, 1, 1, every=60),
            MOVING,
            told(120, in_flight=1, client_disconnects=1, finished_since_disconnect=0),
        ),
    ),
    "nothing runs as it says, and tokens arrive": (
        Mechanism.TELEMETRY_STALE,
        (
            series(Signal.RUNNING, 0, 0, 0, 18, every=10),
            told(20, in_flight=18, first_tokens_received=6),
        ),
    ),
    "a batch that was never counted as running, and the watchdog": (
        Mechanism.ENGINE_HUNG,
        (
            series(Signal.RUNNING, 0, kind=SourceKind.LOG, name="#running-req"),
            WATCHDOG,
            told(300, in_flight=1, probe_one_token="no answer in 60 s"),
        ),
    ),
    "output for nobody": (
        Mechanism.RELEASE_LEAK,
        (RUNNING, MOVING, ORPHAN, told(120, in_flight=0)),
    ),
    "the pool's own check fails": (
        Mechanism.RELEASE_LEAK,
        (said(LogKind.MEMORY_LEAK, "pool memory leak detected!"),),
    ),
    "blocks stay held while nothing runs, and more each time": (
        Mechanism.RELEASE_LEAK,
        (
            series(Signal.RUNNING, 0, 0, 0, every=3600),
            series(Signal.KV_USAGE, 0.1, 0.3, 0.5, every=3600),
            told(7200, in_flight=0),
        ),
    ),
    "all that is exported stands still while answers come out": (
        Mechanism.TELEMETRY_STALE,
        (
            series(Signal.RUNNING, 0, 0, 0, every=60),
            STILL,
            series(Signal.GATEWAY_OUTPUT_TOKENS, 100, 900, 1700, every=60),
        ),
    ),
    "a rate keeps the value of its last batch for an hour": (
        Mechanism.TELEMETRY_STALE,
        (
            series(Signal.RUNNING, 0, 0, every=3600),
            series(Signal.GENERATION_RATE, 1804.55, 1804.55, every=3600),
            series(Signal.GENERATION_TOKENS, 5000, 5000, every=3600),
        ),
    ),
    "the last sample is of twenty minutes ago": (
        Mechanism.TELEMETRY_STALE,
        (told(dashboard_running=88, log_running=3, prometheus_last_sample="22 min ago"),),
    ),
    "somebody counted no token since then": (
        Mechanism.ENGINE_HUNG,
        (RUNNING, WAITING, told(120, in_flight=6, tokens_since_10_00=0)),
    ),
}


@pytest.mark.parametrize("what", CASES)
def test_one_of_them_is_named_and_no_other(what: str) -> None:
    mechanism, parts = CASES[what]
    assert set(_likely(window(*parts))) == {mechanism}


INNOCENT: dict[str, tuple[Part, ...]] = {
    "tokens come": (RUNNING, WAITING, KV, MOVING, told(120, in_flight=6)),
    "a long prompt is computed": (
        RUNNING,
        STILL,
        series(Signal.PROMPT_TOKENS, 0, 8192, 16384, every=60),
        told(120, in_flight=4),
    ),
    "it was put to sleep": (*STUCK, series(Signal.SLEEPING, 1, 1), told(120, in_flight=0)),
    "nothing is known beside the engine": STUCK,
    "it still compiles": (
        said(LogKind.STARTING, "Initializing a V1 LLM engine", at=0),
        said(LogKind.NO_PROGRESS, "No available shared memory broadcast block found", at=60),
    ),
    "the last sample is fresh": (told(dashboard_running=88, prometheus_last_sample="9 s ago"),),
    "requests are in flight that have not come to the engine": (
        series(Signal.RUNNING, 0, 0, 0, 18, every=10),
        told(20, in_flight=18),
    ),
    "blocks are held by requests that wait for the rest of theirs": (
        series(Signal.RUNNING, 0, 0, 0, every=60),
        series(Signal.WAITING, 4, 4, 4, every=60),
        series(Signal.KV_USAGE, 0.98, 0.98, 0.98, every=60),
        series(Signal.GENERATION_RATE, 0.4, 0, 0, every=60, kind=SourceKind.LOG),
        told(120, in_flight=4, waiting_for_remote_kv=3),
    ),
    "it is idle": (series(Signal.RUNNING, 0, 0, 0), STILL, told(30, in_flight=0)),
    "a closed loop keeps its batch": (RUNNING, WAITING, MOVING, told(120, in_flight=6)),
}


@pytest.mark.parametrize("what", INNOCENT)
def test_what_only_looks_like_it_is_not_named(what: str) -> None:
    assert _likely(window(*INNOCENT[what])) == {}


def test_a_standstill_without_the_truth_asks_for_it() -> None:
    found = window(*STUCK)
    needs = {need for rule in (HUNG, STALE) if (seen := rule.judge(found)) for need in seen.needs}
    assert {"requests in flight at the gateway", "a one-token probe"} <= needs


def test_memory_that_grows_asks_who_holds_it() -> None:
    readings = (
        *told(0, vram_used_gib=4.1),
        *told(900, vram_used_gib=11.5),
        *told(1800, vram_used_gib=25),
    )
    found = window(readings)
    verdict = LEAK.judge(found)
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
    assert "which process and allocator pool holds the memory" in verdict.needs
    assert {("vram_used_gib", raw) for raw in ("4.1 GiB", "11.5 GiB", "25 GiB")} <= cited(
        found, verdict
    )


def test_the_figures_of_a_hang_are_cited() -> None:
    found = window(*STUCK, told(120, in_flight=6, probe="no answer in 30 s"))
    verdict = HUNG.judge(found)
    assert verdict is not None
    assert {("vllm:num_requests_running", "4"), ("in_flight", "6")} <= cited(found, verdict)
    assert "no answer in 30 s" in repeated(found, verdict)
    assert {900, 120} <= reckoned(verdict)
