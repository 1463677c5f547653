"""Counts by the minute: of each minute in which an incident was open, and of none twice."""

from controlplane.store.incident_spell import IncidentSpell, minutes_of

_S = 10**9


def spell(began: int, ended: int | None) -> IncidentSpell:
    return IncidentSpell(
        opened_at_unix_ns=(began + 20) * _S,
        since_unix_ns=began * _S,
        resolved_at_unix_ns=None if ended is None else ended * _S,
    )


def test_what_lies_between_two_times_is_in_none() -> None:
    assert minutes_of([spell(630, 700), spell(1260, None)], 1330 * _S) == [
        (600, 720),
        (1260, 1380),
    ]


def test_a_minute_that_two_times_share_is_there_once() -> None:
    assert minutes_of([spell(600, 650), spell(655, 730)], 10**12) == [(600, 780)]


def test_one_that_overlaps_the_time_before_takes_nothing_of_it_away() -> None:
    assert minutes_of([spell(600, 1000), spell(660, 700)], 10**12) == [(600, 1020)]


def test_times_in_minutes_one_after_the_other_are_one_time() -> None:
    assert minutes_of([spell(600, 659), spell(660, 719)], 10**12) == [(600, 720)]
