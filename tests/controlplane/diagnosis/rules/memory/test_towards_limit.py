"""Memory between two kills, and slots that are given up with the pool that they filled."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.rules.memory.decode import DECODE_GROWTH
from controlplane.diagnosis.rules.memory.host import HOST_MEMORY
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import Line, series, told, window

DAY = 86_400


def between_kills(*gib: float, limit: float = 64) -> Window:
    return window(
        series(
            Signal.GENERATION_TOKENS, *(1e6 * (place + 1) for place in range(len(gib))), every=DAY
        ),
        *(
            told(DAY * place, pod_memory_gib=each, gpu_memory_in_use_gib=72.1)
            for place, each in enumerate(gib)
        ),
        told(
            DAY * (len(gib) - 1), pod_memory_limit_gib=limit, last_state="OOMKilled, exit code 137"
        ),
    )


def test_memory_that_grows_to_the_limit_again_says_what_the_last_kill_was() -> None:
    verdict = HOST_MEMORY.judge(between_kills(27.9, 58.6))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


def test_a_kill_before_memory_that_stands_or_is_far_from_its_limit_stays_open() -> None:
    for found in (between_kills(57.9, 58.6), between_kills(12.0, 24.0)):
        verdict = HOST_MEMORY.judge(found)
        assert verdict is not None
        assert verdict.confidence is Confidence.POSSIBLE


def slots(*held: int) -> Window:
    exceeded = Line(
        text="send_error: task id = 4, error: Context size has been exceeded.",
        kind=LogKind.OUT_OF_MEMORY,
        words={"stage": "decode"},
    )
    released = (
        Line(
            text=f"id {slot} | stop processing: n_tokens = {tokens}",
            kind=LogKind.REQUEST_ENDED,
            fields={"tokens": tokens},
            words={"slot": str(slot), "task": "4"},
        )
        for slot, tokens in enumerate(held)
    )
    return window(
        Line(text="n_slots = 2, n_ctx_slot = 8192, kv_unified = 'true'"),
        exceeded,
        *released,
        told(0, n_ctx_slot=8192),
        engine="llama.cpp",
    )


def judged(found: Window) -> Verdict | None:
    """As it is registered: weighed against what the process did afterwards."""
    rule = next(rule for rule in BUILT_IN_RULES if rule.id == DECODE_GROWTH.id)
    return rule.judge(found)


def test_slots_that_held_the_whole_pool_when_they_were_given_up_had_outgrown_it() -> None:
    verdict = judged(slots(4_100, 4_090))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    half = judged(slots(2_000, 2_100))
    assert half is not None
    assert half.confidence is Confidence.POSSIBLE
    alone = judged(slots(8_190))
    assert alone is not None
    assert alone.confidence is Confidence.POSSIBLE
