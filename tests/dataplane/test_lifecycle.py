"""Invariants 1, 3, 5 and 6 of a request's life."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.lifecycle import (
    ANSWERS,
    TERMINAL_STATES,
    TRANSITIONS,
    Delivery,
    Disposition,
    Event,
    EventKind,
    Lifecycle,
    LifecycleError,
    RequestCounts,
    State,
)
from tests.dataplane.golden_request import golden_events, live_through

_DELIVERY = {EventKind.FIRST_WRITE, EventKind.WRITE, EventKind.LAST_WRITE}
_MAY_FOLLOW_THE_END = _DELIVERY | {EventKind.RELEASED}
_PRELUDE = (EventKind.ARRIVED, EventKind.RECEIVED, EventKind.ADMITTED, EventKind.SCHEDULED)


def _plain(kind: EventKind, at: float = 1.0, sequence: int = 0) -> Event:
    return Event(
        kind=kind,
        at=at,
        sequence=sequence,
        disposition=Disposition.STOP if kind is EventKind.FINISHED else None,
        delivery=Delivery.PARTIAL if kind is EventKind.LAST_WRITE else None,
    )


def _after(*kinds: EventKind, num_sequences: int = 1) -> Lifecycle:
    return live_through(tuple(_plain(kind) for kind in kinds), num_sequences)


random_events = st.lists(
    st.builds(
        Event,
        kind=st.sampled_from(EventKind),
        at=st.floats(0, 100),
        sequence=st.integers(0, 2),
        attempt=st.integers(0, 2),
        disposition=st.none() | st.sampled_from(Disposition),
        delivery=st.none() | st.sampled_from(Delivery),
    ),
    max_size=40,
)


@settings(max_examples=400, deadline=None)
@given(events=random_events, num_sequences=st.integers(1, 3), prelude=st.integers(0, len(_PRELUDE)))
def test_no_order_of_events_breaks_an_invariant(
    events: list[Event], num_sequences: int, prelude: int
) -> None:
    lifecycle = _after(*_PRELUDE[:prelude], num_sequences=num_sequences)
    for event in events:
        before = dataclasses.replace(lifecycle, events=list(lifecycle.events))
        try:
            lifecycle.apply(event)
        except LifecycleError:
            assert lifecycle.events == before.events, "a refused event changes nothing"
            assert lifecycle.state is before.state
            continue
        assert lifecycle.events == [*before.events, event]
        if before.is_terminal:
            assert event.kind in _MAY_FOLLOW_THE_END
            assert lifecycle.disposition is before.disposition
            assert lifecycle.state is before.state
        if before.is_delivered:
            assert event.kind not in _DELIVERY
        if before.is_released:
            assert event.kind in _DELIVERY
    _check_whole(lifecycle)


def _check_whole(lifecycle: Lifecycle) -> None:
    """What holds for every life, however far it came."""
    kinds = [event.kind for event in lifecycle.events]
    assert (lifecycle.disposition is not None) is lifecycle.is_terminal
    assert kinds.count(EventKind.INVALID) + kinds.count(EventKind.REJECTED) <= 1
    assert kinds.count(EventKind.RELEASED) <= 1
    assert kinds.count(EventKind.LAST_WRITE) <= 1
    assert kinds.count(EventKind.FIRST_WRITE) <= 1
    finishes = [e for e in lifecycle.events if e.kind is EventKind.FINISHED]
    # An answer ends its sequence, anything else the whole request, and then nothing ends twice.
    answers = [event for event in finishes if event.disposition in ANSWERS]
    assert len({event.sequence for event in answers}) == len(answers)
    assert finishes[: len(answers)] == answers
    assert len(finishes) - len(answers) <= 1
    is_over = len(answers) == lifecycle.num_sequences or len(finishes) > len(answers)
    assert is_over is (lifecycle.state is State.FINISHED)
    if lifecycle.is_released:
        assert lifecycle.state is State.FINISHED
        assert kinds.index(EventKind.RELEASED) > kinds.index(EventKind.FINISHED)
    if lifecycle.delivery is Delivery.COMPLETE:
        assert lifecycle.is_terminal


def test_a_terminal_state_has_no_way_out() -> None:
    assert not [state for state, _ in TRANSITIONS if state in TERMINAL_STATES]


def test_every_state_is_reached_and_every_kind_is_used() -> None:
    assert {*TRANSITIONS.values(), State.NEW} == set(State)
    moving = {kind for _, kind in TRANSITIONS}
    assert moving | _DELIVERY | {EventKind.RELEASED} == set(EventKind)


def test_the_golden_request_lives_to_its_release() -> None:
    lifecycle = live_through(golden_events())
    assert lifecycle.disposition is Disposition.STOP
    assert lifecycle.delivery is Delivery.COMPLETE
    assert lifecycle.is_released


def test_finished_is_not_released() -> None:
    lifecycle = _after(*_PRELUDE, EventKind.FINISHED)
    assert lifecycle.is_terminal
    assert not lifecycle.is_released
    lifecycle.apply(_plain(EventKind.RELEASED))
    assert lifecycle.is_released


def test_a_second_disposition_is_refused_and_the_first_stays() -> None:
    lifecycle = _after(*_PRELUDE, EventKind.FINISHED)
    with pytest.raises(LifecycleError, match="cannot follow state finished"):
        lifecycle.apply(Event(kind=EventKind.FINISHED, at=2.0, disposition=Disposition.CANCELLED))
    assert lifecycle.disposition is Disposition.STOP


def test_a_request_ends_with_its_last_sequence() -> None:
    lifecycle = _after(*_PRELUDE, num_sequences=2)
    lifecycle.apply(_plain(EventKind.FIRST_TOKEN, sequence=0))
    lifecycle.apply(_plain(EventKind.FIRST_TOKEN, sequence=1))
    lifecycle.apply(
        Event(kind=EventKind.FINISHED, at=2.0, sequence=1, disposition=Disposition.LENGTH)
    )
    assert not lifecycle.is_terminal
    assert lifecycle.disposition is None
    lifecycle.apply(_plain(EventKind.FINISHED, at=3.0, sequence=0))
    assert lifecycle.disposition is Disposition.STOP


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (_plain(EventKind.FINISHED, sequence=1), "there are 1 sequences"),
        (_plain(EventKind.FIRST_TOKEN), "has its first token already"),
        (Event(kind=EventKind.FINISHED, at=1.0), "carries no disposition"),
        (Event(kind=EventKind.TOKENS, at=-0.1), "no time"),
        (Event(kind=EventKind.TOKENS, at=float("nan")), "no time"),
        (Event(kind=EventKind.TOKENS, at=float("inf")), "no time"),
        (_plain(EventKind.RELEASED), "only a finished request"),
        (_plain(EventKind.WRITE), "first write comes once"),
        (_plain(EventKind.SCHEDULED), "no such transition"),
    ],
)
def test_what_cannot_follow_a_first_token_is_refused_with_the_reason(
    event: Event, why: str
) -> None:
    lifecycle = _after(*_PRELUDE, EventKind.FIRST_TOKEN)
    with pytest.raises(LifecycleError, match=why) as refusal:
        lifecycle.apply(event)
    assert refusal.value.request_id == "request-1"
    assert refusal.value.state is State.DECODE
    assert refusal.value.event is event


def test_a_retry_on_another_replica_is_a_second_attempt() -> None:
    lifecycle = _after(*_PRELUDE)
    lifecycle.apply(Event(kind=EventKind.SCHEDULED, at=1.0, attempt=1, replica_id="replica-2"))
    assert lifecycle.state is State.PREFILL
    assert lifecycle.attempt == 1


def test_what_is_shed_from_the_queue_finishes_without_engine_work() -> None:
    lifecycle = _after(*_PRELUDE[:3])
    lifecycle.apply(Event(kind=EventKind.FINISHED, at=1.0, disposition=Disposition.SHED))
    assert lifecycle.disposition is Disposition.SHED
    assert not lifecycle.was_scheduled


def test_nothing_is_written_after_a_disconnect_was_seen() -> None:
    lifecycle = _after(*_PRELUDE, EventKind.FIRST_TOKEN, EventKind.FIRST_WRITE)
    lifecycle.apply(Event(kind=EventKind.LAST_WRITE, at=1.0, delivery=Delivery.PARTIAL))
    with pytest.raises(LifecycleError, match="delivery is closed"):
        lifecycle.apply(_plain(EventKind.WRITE))
    assert lifecycle.delivery is Delivery.PARTIAL


@pytest.mark.parametrize(
    ("written", "delivery"),
    [
        (False, Delivery.COMPLETE),
        (False, Delivery.PARTIAL),
        (True, Delivery.NONE),
    ],
)
def test_delivery_says_what_was_written(written: bool, delivery: Delivery) -> None:
    writes = [EventKind.FIRST_WRITE] if written else []
    lifecycle = _after(*_PRELUDE, EventKind.FIRST_TOKEN, *writes, EventKind.FINISHED)
    with pytest.raises(LifecycleError, match="contradicts what was written"):
        lifecycle.apply(Event(kind=EventKind.LAST_WRITE, at=1.0, delivery=delivery))


def test_no_answer_is_complete_before_its_request_has_ended() -> None:
    lifecycle = _after(*_PRELUDE, EventKind.FIRST_TOKEN, EventKind.FIRST_WRITE)
    with pytest.raises(LifecycleError, match="before its request has ended"):
        lifecycle.apply(Event(kind=EventKind.LAST_WRITE, at=1.0, delivery=Delivery.COMPLETE))


def _counts(**changes: int) -> RequestCounts:
    balanced = RequestCounts(
        arrived=10, invalid=1, undecided=2, rejected=3, admitted=4, active=1, finished=3
    )
    return dataclasses.replace(balanced, **changes)


def test_balanced_counts_pass() -> None:
    _counts().check_integrity()


def test_a_request_that_no_state_claims_is_named_with_both_sums() -> None:
    with pytest.raises(AssertionError, match="arrived 11 != 10"):
        _counts(arrived=11).check_integrity()


def test_an_admitted_request_that_is_neither_active_nor_finished_is_named() -> None:
    with pytest.raises(AssertionError, match=r"admitted 4 != active 0 \+ finished 3"):
        _counts(active=0).check_integrity()


def test_an_answers_end_is_of_its_sequence_and_any_other_end_of_the_request() -> None:
    life = Lifecycle(request_id="r", arrived_at_unix_ns=0)
    life.apply(Event(kind=EventKind.ARRIVED, at=0.0))
    life.expect_sequences(3)
    for kind in (EventKind.RECEIVED, EventKind.ADMITTED, EventKind.SCHEDULED):
        life.apply(Event(kind=kind, at=0.0))
    life.apply(Event(kind=EventKind.FINISHED, at=1.0, sequence=1, disposition=Disposition.STOP))
    assert not life.is_terminal
    life.apply(Event(kind=EventKind.FINISHED, at=2.0, disposition=Disposition.CANCELLED))
    assert (life.state, life.disposition) == (State.FINISHED, Disposition.CANCELLED)


def test_how_many_sequences_there_are_is_said_before_the_request_is_received() -> None:
    life = Lifecycle(request_id="r", arrived_at_unix_ns=0)
    life.apply(Event(kind=EventKind.ARRIVED, at=0.0))
    with pytest.raises(ValueError, match="cannot have 0 sequences"):
        life.expect_sequences(0)
    life.apply(Event(kind=EventKind.RECEIVED, at=0.0))
    with pytest.raises(ValueError, match="in state received"):
        life.expect_sequences(2)
