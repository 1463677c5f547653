"""Which calls in a row were refused, and of whom that says that it is gone."""

from controlplane.diagnosis.sources.refusals import (
    LOOKS_KEY,
    SHUT_KEY,
    Refusals,
    told_of_refusals,
)

THERE = Refusals().after_answer()


def test_an_answer_or_a_silence_ends_the_row() -> None:
    shut = THERE.after_refusal(10.0).after_refusal(15.0)
    assert (shut.since, shut.last_at, shut.num, shut.is_end) == (10.0, 15.0, 2, True)
    assert shut.after_answer() == THERE
    assert shut.after_silence() == THERE
    assert shut.after_silence().after_refusal(30.0).since == 30.0


def test_of_who_never_answered_nothing_is_told() -> None:
    never = Refusals().after_silence().after_refusal(10.0).after_refusal(40.0)
    assert told_of_refusals({"a": never, "b": THERE}) == ()


def test_each_is_told_by_its_name_and_one_alone_without() -> None:
    shut = THERE.after_refusal(10.0).after_refusal(22.0)
    named = told_of_refusals({"a": shut})
    assert [(each.key, each.part, each.value) for each in named] == [
        (f"{SHUT_KEY}.a", "a", 12.0),
        (f"{LOOKS_KEY}.a", "a", 2.0),
    ]
    alone = told_of_refusals({"": shut})
    assert [(each.key, each.part) for each in alone] == [(SHUT_KEY, None), (LOOKS_KEY, None)]
    assert {each.at for each in (*named, *alone)} == {22.0}
