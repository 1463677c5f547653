"""What is kept of a decision, and how much of it at most."""

import random

from hypothesis import given
from hypothesis import strategies as st

from dataplane.decision import (
    MAX_CANDIDATE_SIGNALS,
    MAX_CANDIDATES,
    MAX_SIGNALS,
    MAX_TEXT,
    AdmissionDecision,
    AdmissionOutcome,
    AppliedOverride,
    RoutingCandidate,
    RoutingDecision,
    Signal,
    clip,
    keep_best,
    keep_signals,
)
from dataplane.record import decode_record, encode_record, record_to_dict
from tests.dataplane.golden_request import golden_record

_MAX_BYTES = 20 * 1024
_SCORES = st.none() | st.floats(0, 100)
_CANDIDATES = st.lists(
    st.builds(
        RoutingCandidate,
        replica_id=st.uuids().map(str),
        score=_SCORES,
        why_not=st.none() | st.just("no free slot"),
    ),
    max_size=20,
    unique_by=lambda each: each.replica_id,
)


@given(_CANDIDATES, st.randoms(use_true_random=False))
def test_the_same_candidates_are_kept_in_whatever_order_they_come(
    candidates: list[RoutingCandidate], shuffler: random.Random
) -> None:
    shuffled = list(candidates)
    shuffler.shuffle(shuffled)
    chosen = candidates[0].replica_id if candidates else ""
    assert keep_best(candidates, chosen) == keep_best(shuffled, chosen)


@given(_CANDIDATES.filter(bool))
def test_the_chosen_one_is_kept_first_however_badly_it_scored(
    candidates: list[RoutingCandidate],
) -> None:
    worst = candidates[-1]
    kept = keep_best(candidates, worst.replica_id)
    assert kept[0] == worst
    assert len(kept) == min(len(candidates), MAX_CANDIDATES)


def test_who_could_not_be_taken_comes_behind_who_scored_badly() -> None:
    blocked = RoutingCandidate(replica_id="a", score=0.0, why_not="no free slot")
    slow, unscored = (
        RoutingCandidate(replica_id="b", score=99.0),
        RoutingCandidate(replica_id="c"),
    )
    kept = keep_best([blocked, unscored, slow], "nobody")
    assert [each.replica_id for each in kept] == ["b", "c", "a"]


def test_decisive_signals_are_kept_before_those_that_were_only_looked_at() -> None:
    looked_at = [Signal(name=f"seen_{number}", value=1.0) for number in range(MAX_SIGNALS)]
    limited = Signal(name="queued", value=3, limit=8)
    decisive = Signal(name="queue_age", value=2.0, limit=1.0, is_decisive=True)
    kept = keep_signals([*looked_at, limited, decisive])
    assert kept[:2] == (decisive, limited)
    assert len(kept) == MAX_SIGNALS


def test_a_long_reason_is_cut_and_says_so() -> None:
    assert clip("short") == "short"
    assert len(clip("x" * 1000)) == MAX_TEXT
    assert clip("x" * 1000).endswith("…")


def test_decisions_over_a_thousand_replicas_and_signals_keep_a_record_within_its_bound() -> None:
    signals = keep_signals(
        Signal(name=f"signal_{number}", value=1 / 3, unit="tokens", source="r" * 64, limit=2 / 3)
        for number in range(1000)
    )
    candidates = [
        RoutingCandidate(
            replica_id=f"chat-{number:060}",
            score=number / 7,
            signals=signals[:MAX_CANDIDATE_SIGNALS],
            why_not=clip("n" * 999),
        )
        for number in range(1000)
    ]
    routing = tuple(
        RoutingDecision(
            attempt=attempt,
            policy="prefix_affinity",
            chosen=candidates[7].replica_id,
            reason=clip("because " * 100),
            candidates=keep_best(candidates, candidates[7].replica_id),
            num_candidates=len(candidates),
        )
        for attempt in range(2)
    )
    decision = AdmissionDecision(
        outcome=AdmissionOutcome.ADMITTED,
        snapshot_version=1,
        policy_revision="chat@1",
        signals=signals,
    )
    plain = len(encode_record(golden_record()))
    assert (
        len(encode_record(golden_record(decision=decision, routing=routing))) < plain + _MAX_BYTES
    )


def test_a_decision_comes_back_from_the_wire_as_it_was_and_is_told_whole() -> None:
    decision = AdmissionDecision(
        outcome=AdmissionOutcome.REJECTED,
        snapshot_version=41,
        policy_revision="chat@14",
        kind="queue_full",
        reason="64 requests of class interactive are waiting, and max_queue is 64",
        signals=(
            Signal(name="queued", value=64, unit="requests", limit=64, is_decisive=True),
            Signal(name="kv_free", value=None, source="r1", age_seconds=None, is_used=False),
        ),
        overrides=(AppliedOverride(override_id="o1", effect="limits are off"),),
    )
    record = golden_record(decision=decision)
    assert decode_record(encode_record(record)) == record
    told = record_to_dict(record)["decision"]
    assert told["retry_after_seconds"] is None
    assert told["signals"][1] == {
        "name": "kv_free",
        "value": None,
        "unit": "",
        "source": "r1",
        "age_seconds": None,
        "limit": None,
        "is_used": False,
        "is_decisive": False,
    }
    assert told["overrides"] == [{"override_id": "o1", "effect": "limits are off"}]
