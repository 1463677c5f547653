import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.placement.phase_mismatch import PHASE_MISMATCH
from controlplane.diagnosis.rules.placement.skew import SKEW
from controlplane.diagnosis.rules.placement.transfer_bound import TRANSFER_BOUND
from controlplane.diagnosis.rules.placement.wrong_worker import WRONG_WORKER
from controlplane.diagnosis.window import Change
from dataplane.engine_metrics.signal import Signal, Unit
from tests.controlplane.diagnosis.rules.build_window import fact, series, window
from tests.controlplane.diagnosis.rules.evidence import repeated, weighed


def _ranks(signal: Signal, *courses: tuple[float, ...], every: float = 60) -> list[Series]:
    return [
        series(signal, *course, every=every, engine=str(rank))
        for rank, course in enumerate(courses)
    ]


def test_some_idle_beside_one_that_has_most() -> None:
    verdict = SKEW.judge(
        window(
            *_ranks(Signal.RUNNING, (8, 27), (8, 5), (8, 0), (8, 0)),
            *_ranks(Signal.WAITING, (0, 0), (0, 0), (0, 0), (0, 0)),
            fact("in_flight", 32, at=60),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    running = [each for each in verdict.cited if each.signal == Signal.RUNNING.value]
    assert [each.value for each in running if each.age_seconds == 0] == [27, 5, 0, 0]
    assert len({each.place for each in running}) == 4


def test_queues_at_two_of_eight_while_the_others_have_room() -> None:
    verdict = SKEW.judge(
        window(
            *_ranks(Signal.RUNNING, (51,), (31,), (33,), (32,)),
            *_ranks(Signal.WAITING, (117,), (108,), (0,), (0,)),
            *_ranks(Signal.KV_USAGE, (1.0,), (0.99,), (0.61,), (0.59,)),
        )
    )
    assert verdict is not None
    assert verdict.confidence >= Confidence.LIKELY


@pytest.mark.parametrize(
    "told",
    [
        (fact("running_by_replica", "27/5/0/0"),),
        tuple(fact(f"b{index}_in_flight", value) for index, value in enumerate((0, 0, 0, 11))),
    ],
    ids=("list", "keys"),
)
def test_what_was_told_by_place_counts_as_well(told: tuple[Fact, ...]) -> None:
    verdict = SKEW.judge(window(*told))
    assert verdict is not None
    assert verdict.confidence >= Confidence.LIKELY


def test_chance_and_phases_are_no_skew() -> None:
    assert SKEW.judge(window(*_ranks(Signal.RUNNING, (9, 7), (6, 8), (8, 6)))) is None
    apart = [
        series(Signal.RUNNING, 0, 0, role="prefill", replica="p0"),
        series(Signal.RUNNING, 40, 41, role="decode", replica="d0"),
    ]
    assert SKEW.judge(window(*apart)) is None


@pytest.mark.parametrize(
    "told",
    [
        (fact("router_predicted_cached_tokens", 9000), fact("engine_cached_tokens", 800)),
        (fact("sessions_seen_by_more_than_one_worker", 0.78),),
        (fact("engines_touched_per_rollout", 7.2),),
        (fact("conversation_turns_on_same_pod", 0.34),),
    ],
    ids=lambda told: told[0].key,
)
def test_requests_that_meet_replicas_without_their_prefix(told: tuple[Fact, ...]) -> None:
    verdict = WRONG_WORKER.judge(window(*told, fact("replicas", 3)))
    assert verdict is not None
    assert verdict.confidence >= Confidence.LIKELY
    assert Mechanism.CACHE_PREFIX_LOSS in weighed(verdict)


def test_far_fewer_hits_than_is_shared_on_several_replicas() -> None:
    hits = [
        *_ranks(Signal.PREFIX_QUERIES, (0, 100_000), (0, 100_000), every=300),
        *_ranks(Signal.PREFIX_HITS, (0, 40_000), (0, 41_000), every=300),
    ]
    shared = fact("history_shared_between_turns", 0.94)
    verdict = WRONG_WORKER.judge(window(*hits, shared))
    assert verdict is not None
    full = series(Signal.KV_USAGE, 0.5, 0.97, every=300)
    assert WRONG_WORKER.judge(window(*hits, shared, full)) is None


def test_a_model_that_is_refused_asks_who_has_it() -> None:
    verdict = WRONG_WORKER.judge(window("ERROR: The model `tuned-7b` does not exist."))
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
    assert any("which replicas hold" in need for need in verdict.needs)


def test_affinity_that_works_is_no_wrong_worker() -> None:
    assert WRONG_WORKER.judge(window(fact("conversation_turns_on_same_pod", 0.97))) is None


def test_one_phase_that_waits_while_the_other_idles() -> None:
    verdict = PHASE_MISMATCH.judge(
        window(
            fact("prefill_queue", 57),
            fact("prefill_gpu_busy", 0.99),
            fact("decode_gpu_busy", 0.14),
            fact("prefill_workers", 1),
            fact("decode_workers", 3),
        )
    )
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    assert verdict.detail.startswith("too little prefill")


def test_both_phases_busy_is_no_mismatch_and_one_side_alone_is_open() -> None:
    busy = (fact("prefill_gpu_busy", 0.97), fact("decode_gpu_busy", 0.95))
    assert PHASE_MISMATCH.judge(window(*busy)) is None
    alone = PHASE_MISMATCH.judge(window(series(Signal.PREFILL_QUEUE, 30, 40, 50)))
    assert alone is not None
    assert alone.confidence is Confidence.POSSIBLE


def test_moving_kv_takes_most_of_the_first_tokens_time() -> None:
    ttft = fact("ttft_p50_ms", 1.2, unit=Unit.SECONDS)
    slow = TRANSFER_BOUND.judge(window(fact("kv_transfer_ms", 0.9, unit=Unit.SECONDS), ttft))
    assert slow is not None
    assert slow.confidence is Confidence.CERTAIN
    quick = fact("kv_transfer_ms", 0.02, unit=Unit.SECONDS)
    assert TRANSFER_BOUND.judge(window(quick, ttft)) is None
    alone = TRANSFER_BOUND.judge(window(fact("kv_transfer_ms", 0.9, unit=Unit.SECONDS)))
    assert alone is not None
    assert alone.confidence is Confidence.POSSIBLE


def test_a_change_of_routing_is_cited_with_what_it_did() -> None:
    changed = Change(at=-600, what="router policy: prefix-aware -> round robin")
    found = window(fact("sessions_on_several_workers", 0.8), changed)
    verdict = WRONG_WORKER.judge(found)
    assert verdict is not None
    assert changed.what in repeated(found, verdict)
