"""How long a client made us wait is never told twice, nor as more than there was."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.client_waits import client_waits, seconds_of, waits_between
from dataplane.lifecycle import Delivery, Event, EventKind


def write(at: float, waited: float | None, kind: EventKind = EventKind.WRITE) -> Event:
    return Event(kind=kind, at=at, waited_seconds=waited)


def test_a_wait_lies_before_the_write_that_tells_it() -> None:
    assert client_waits([write(1.0, 0.25), write(2.0, None), write(3.0, 0.0)]) == [(0.75, 1.0)]


def test_the_end_of_a_whole_answer_does_not_tell_its_only_wait_again() -> None:
    events = [
        write(1.0, 0.5, EventKind.FIRST_WRITE),
        Event(kind=EventKind.LAST_WRITE, at=1.0, delivery=Delivery.COMPLETE, waited_seconds=0.5),
    ]

    assert seconds_of(client_waits(events)) == 0.5


def test_waits_of_sequences_that_are_written_at_once_are_one() -> None:
    waits = client_waits([write(2.0, 1.0), write(2.5, 1.0), write(5.0, 1.0)])

    assert waits == [(1.0, 2.5), (4.0, 5.0)]


def test_only_what_lies_inside_a_phase_counts_for_it() -> None:
    waits = [(0.5, 1.5), (2.0, 3.0), (9.0, 10.0)]

    assert waits_between(waits, 1.0, 2.5) == [(1.0, 1.5), (2.0, 2.5)]
    assert waits_between(waits, 4.0, 5.0) == []


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100) | st.none())),
    st.floats(0, 100),
    st.floats(0, 100),
)
def test_waits_never_exceed_the_phase_they_lie_in(
    told: list[tuple[float, float | None]], start: float, length: float
) -> None:
    waits = client_waits([write(at, waited) for at, waited in told])

    assert all(until < since for (_, until), (since, _) in itertools.pairwise(waits))
    inside = seconds_of(waits_between(waits, start, start + length))
    assert inside <= length + 1e-9
