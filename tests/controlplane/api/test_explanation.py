"""Why a request went as it did, in words: who decided, on what, how old that was, what else."""

import pytest

from controlplane.api.explanation import (
    ExplainedAdmission,
    explain_admission,
    explain_record,
    explain_routing,
    without_others,
)
from controlplane.api.quantities import amount
from dataplane.decision import (
    AdmissionDecision,
    AdmissionOutcome,
    AppliedOverride,
    RoutingCandidate,
    RoutingDecision,
    Signal,
)
from dataplane.lifecycle import Disposition
from tests.dataplane.golden_request import golden_record

_FULL = Signal(name="waiting_of_class", value=64, unit="requests", limit=64, is_decisive=True)
_DRAIN = Signal(name="drain_rate", value=21.4, unit="requests/s", age_seconds=2.0)
_NEVER = Signal(name="kv_free", value=None, source="chat-2", age_seconds=None, is_used=False)
_OLD = Signal(name="kv_free", value=3, source="chat-2", age_seconds=12.0, is_used=False)


def admission(outcome: AdmissionOutcome, *signals: Signal, **fields: object) -> AdmissionDecision:
    given = {"snapshot_version": 41, "policy_revision": "chat@14", "request_class": "interactive"}
    return AdmissionDecision(outcome=outcome, signals=signals, **(given | fields))  # type: ignore[arg-type]


def explained(outcome: AdmissionOutcome, *signals: Signal, **fields: object) -> ExplainedAdmission:
    return explain_admission(admission(outcome, *signals, **fields), "gateway-0-a")


def test_a_rejection_names_policy_version_gateway_reason_and_what_would_have_let_it_in() -> None:
    told = explained(
        AdmissionOutcome.REJECTED,
        _FULL,
        kind="queue_full",
        reason="64 requests of class interactive are waiting",
        retry_after_seconds=3,
    )
    assert told.text == (
        "Policy chat@14, in config version 41 at gateway-0-a, refused it (queue_full) as class "
        "interactive: 64 requests of class interactive are waiting. It was told to come again in "
        "3 s."
    )
    assert told.otherwise == "With waiting of class below 64 requests it had been let in."


@pytest.mark.parametrize("kind", ["draining", "no_replica", "no_class", "shed", "retry_budget"])
def test_where_no_number_decided_a_rejection_says_what_was_missing(kind: str) -> None:
    told = explained(AdmissionOutcome.REJECTED, kind=kind)
    assert told.otherwise.startswith("It had taken ")


def test_what_was_let_in_says_which_bound_was_nearest() -> None:
    near = Signal(name="tenant_tokens", value=180_000, unit="tokens", limit=200_000)
    told = explained(AdmissionOutcome.ADMITTED, Signal(name="queue_age", value=0.1, limit=1), near)
    assert (
        told.otherwise == "The nearest bound was tenant tokens: 180,000 tokens of 200,000 tokens."
    )
    assert "let it in" in told.text


def test_a_degraded_answer_says_what_was_taken_and_what_would_have_kept_it_whole() -> None:
    age = Signal(name="queue_age", value=1.3, unit="s", limit=1.0)
    told = explained(
        AdmissionOutcome.DEGRADED,
        age,
        reason="queue age 1.3 s is over 1 s",
        degraded=("max_tokens=256",),
        asked_output_tokens=1024,
        fallback="chat-small",
    )
    assert "let it in with max_tokens=256" in told.text
    assert "Asked for were 1024 output tokens" in told.text
    assert "Deployment chat-small stands in" in told.text
    assert told.otherwise == "With queue age below 1.0 s it had been served in full."


@pytest.mark.parametrize(
    ("signals", "knew"),
    [
        ((_FULL,), "All that it used was counted by the gateway itself, at that moment."),
        ((_FULL, _DRAIN), "The oldest that it used was 2.0 s old: drain rate, told by gateway."),
        ((_NEVER,), "It did without kv free (chat-2 never told it)."),
        ((_OLD,), "It did without kv free (12.0 s old, told by chat-2)."),
        ((), "No number was read for it."),
    ],
)
def test_it_says_how_old_was_what_it_knew_and_what_it_did_without(
    signals: tuple[Signal, ...], knew: str
) -> None:
    assert knew in explained(AdmissionOutcome.ADMITTED, *signals).knew


def test_overrides_that_touched_it_are_named() -> None:
    told = explained(
        AdmissionOutcome.ADMITTED,
        overrides=(AppliedOverride(override_id="9f3a61c2", effect="limits are off"),),
    )
    assert [(each.override_id, each.effect) for each in told.overrides] == [
        ("9f3a61c2", "limits are off")
    ]


def routing(*candidates: RoutingCandidate, num_candidates: int) -> RoutingDecision:
    return RoutingDecision(
        attempt=0,
        policy="two_choices",
        chosen="a",
        reason="it has less outstanding",
        candidates=candidates,
        num_candidates=num_candidates,
    )


def test_a_routing_decision_names_the_next_best_and_how_many_are_not_listed() -> None:
    told = explain_routing(
        routing(
            RoutingCandidate(replica_id="a", score=0.18),
            RoutingCandidate(replica_id="b", score=0.31),
            RoutingCandidate(replica_id="c", why_not="ejected: it failed"),
            num_candidates=1000,
        )
    )
    assert told.text == (
        "Routing policy two_choices chose a of 1000 that could be taken: it has less outstanding."
    )
    assert told.otherwise == "Next was b: its score was 0.31, and less than 0.18 had won."
    assert told.num_left_out == 998
    assert [each.is_chosen for each in told.candidates] == [True, False, False]


def test_a_single_replica_had_no_rival() -> None:
    told = explain_routing(routing(RoutingCandidate(replica_id="a"), num_candidates=1))
    assert told.otherwise == "There was no other to take."


@pytest.mark.parametrize(
    ("disposition", "why"),
    [
        (Disposition.INVALID, "before any policy was asked"),
        (Disposition.LOST, "went with it"),
        (Disposition.STOP, "did not keep decisions"),
    ],
)
def test_without_a_decision_it_says_why_there_is_none(disposition: Disposition, why: str) -> None:
    explanation = explain_record(golden_record(disposition=disposition))
    assert explanation.admission is None
    assert why in (explanation.why_none or "")


def test_who_sees_one_tenant_is_told_no_number_that_counts_others() -> None:
    decision = admission(AdmissionOutcome.ADMITTED, _DRAIN, reason="a slot is free")
    record = golden_record(
        decision=decision,
        routing=(routing(RoutingCandidate(replica_id="b", score=1.0), num_candidates=9),),
    )
    told = without_others(explain_record(record))
    assert told.admission is not None
    assert "a slot is free" in told.admission.text
    assert told.admission.signals == []
    assert "21.4" not in repr(told)
    assert (told.routing[0].candidates, told.routing[0].num_left_out) == ([], 0)
    assert "9" not in told.routing[0].text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "s", "unknown"),
        (0.34, "s", "340 ms"),
        (1.25, "s", "1.2 s"),
        (64, "requests", "64 requests"),
        (200000, "tokens", "200,000 tokens"),
        (0.1834, "", "0.183"),
    ],
)
def test_a_number_is_told_with_its_unit(value: float | None, unit: str, text: str) -> None:
    assert amount(value, unit) == text
