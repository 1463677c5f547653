"""A record holds a bounded number of events of pace, and every sum stays what it was."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dataplane.client_waits import client_waits, seconds_of
from dataplane.lifecycle import AnswerPart, Disposition, Event, EventKind
from dataplane.pace import join_pace


def token(at: float, sequence: int = 0, num_tokens: int | None = 1) -> Event:
    return Event(kind=EventKind.TOKENS, at=at, sequence=sequence, num_tokens=num_tokens)


def test_a_usual_request_keeps_every_event() -> None:
    events = [token(float(n)) for n in range(8)]
    assert join_pace(events, 8) == (tuple(events), 0)


def test_neighbours_of_one_sequence_become_one_at_the_time_of_the_last() -> None:
    end = Event(kind=EventKind.FINISHED, at=3.5, sequence=1, disposition=Disposition.STOP)
    events = [token(0, 0), token(0, 1), token(1, 0), token(1, 1), token(2, 0), token(3, 1), end]
    joined, num_joined = join_pace(events, 3)
    assert [(e.kind, e.at, e.sequence, e.num_tokens) for e in joined] == [
        (EventKind.TOKENS, 1, 0, 2),
        (EventKind.TOKENS, 1, 1, 2),
        (EventKind.TOKENS, 2, 0, 1),
        (EventKind.TOKENS, 3, 1, 1),
        (EventKind.FINISHED, 3.5, 1, None),
    ]
    assert num_joined == 2


def test_the_token_with_which_an_answer_begins_stays_as_it_is() -> None:
    begins = msgspec.structs.replace(token(2), begins=AnswerPart.ANSWER)
    joined, _ = join_pace([token(0), token(1), begins, token(3), token(4)], 2)
    assert begins in joined
    assert [event.num_tokens for event in joined] == [2, 1, 2]


def test_what_an_event_does_not_say_is_not_made_up() -> None:
    joined, _ = join_pace([token(0), token(1, num_tokens=None)], 1)
    assert [event.num_tokens for event in joined] == [None]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([EventKind.TOKENS, EventKind.WRITE, EventKind.PREEMPTED]),
            st.integers(0, 2),
            st.integers(1, 5),
        ),
        max_size=60,
    ),
    st.integers(1, 20),
)
def test_sums_order_and_all_other_events_stay(
    told: list[tuple[EventKind, int, int]], max_events: int
) -> None:
    events = [
        Event(
            kind=kind,
            at=float(at),
            sequence=sequence if kind is EventKind.TOKENS else 0,
            num_tokens=num_tokens,
            waited_seconds=num_tokens / 16 if kind is EventKind.WRITE else None,
        )
        for at, (kind, sequence, num_tokens) in enumerate(told)
    ]
    joined, num_joined = join_pace(events, max_events)

    assert len(joined) + num_joined == len(events)
    assert [e.at for e in joined] == sorted(e.at for e in joined)
    for kind in (EventKind.TOKENS, EventKind.WRITE):
        for sequence in range(3):
            sums = [
                sum(e.num_tokens or 0 for e in some if (e.kind, e.sequence) == (kind, sequence))
                for some in (events, joined)
            ]
            assert sums[0] == sums[1]
    others = [event for event in events if event.kind is EventKind.PREEMPTED]
    assert [event for event in joined if event.kind is EventKind.PREEMPTED] == others
    assert seconds_of(client_waits(joined)) == seconds_of(client_waits(events))
    num_pace = len(joined) - len(others)
    assert num_pace <= max_events + 4, "a stream may end in the middle of a group"
