from typing import Any

import pytest

from dataplane.scheduling.sequence import (
    TRANSITIONS,
    Sequence,
    SequenceStatus,
    SequenceStatusError,
    Tick,
)


def a_sequence(num_output: int = 0) -> Sequence:
    return Sequence(
        request_id="r",
        sequence_id=1,
        prompt_token_ids=(10, 11, 12),
        max_output_tokens=8,
        output_token_ids=list(range(20, 20 + num_output)),
    )


def test_tokens_are_read_across_the_end_of_the_prompt() -> None:
    sequence = a_sequence(num_output=2)
    everything = (10, 11, 12, 20, 21)
    assert tuple(sequence.token_at(p) for p in range(5)) == everything
    for start in range(6):
        for stop in range(start, 6):
            assert sequence.tokens(start, stop) == everything[start:stop]


def test_tokens_that_do_not_exist_are_not_read() -> None:
    sequence = a_sequence(num_output=2)
    for position in (-1, 5):
        with pytest.raises(IndexError, match="5 tokens"):
            sequence.token_at(position)
    with pytest.raises(IndexError, match="5 tokens"):
        sequence.tokens(2, 6)


def test_a_sequence_decodes_when_only_its_newest_output_lacks_kv() -> None:
    seen = []
    sequence = a_sequence(num_output=0)
    for num_output, num_computed in [(0, 2), (1, 3), (2, 3), (2, 4)]:
        sequence.output_token_ids = list(range(20, 20 + num_output))
        sequence.num_computed_tokens = num_computed
        seen.append(sequence.is_decoding)
    assert seen == [False, True, False, True]  # (0, 2): the last prompt token is still prefill


@pytest.mark.parametrize("current", SequenceStatus)
@pytest.mark.parametrize("wanted", SequenceStatus)
def test_only_listed_transitions_happen(current: SequenceStatus, wanted: SequenceStatus) -> None:
    sequence = a_sequence()
    sequence._status = current
    if wanted in TRANSITIONS[current]:
        sequence.move_to(wanted)
        assert sequence.status is wanted
    else:
        with pytest.raises(SequenceStatusError, match=f"is {current} and cannot become {wanted}"):
            sequence.move_to(wanted)
        assert sequence.status is current


def test_a_finished_sequence_stays_finished() -> None:
    assert TRANSITIONS[SequenceStatus.FINISHED] == frozenset()


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="prompt is empty"):
        Sequence(request_id="r", sequence_id=1, prompt_token_ids=(), max_output_tokens=1)


def test_a_sequence_that_may_select_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Sequence(request_id="r", sequence_id=1, prompt_token_ids=(1,), max_output_tokens=0)


def a_scripted(**changed: Any) -> Sequence:
    given = {"prompt_token_ids": (10, 11), "max_output_tokens": 8, "script": (20, 21, 22)}
    return Sequence(request_id="r", sequence_id=1, **{**given, **changed})


def test_a_script_is_read_as_far_as_it_was_selected() -> None:
    sequence = a_scripted()
    sequence.select(None)
    sequence.select(None)
    assert sequence.output_token_ids == [20, 21]
    assert sequence.tokens(1, 4) == (11, 20, 21)
    assert [sequence.token_at(p) for p in range(4)] == [10, 11, 20, 21]
    with pytest.raises(IndexError, match="4 tokens"):
        sequence.token_at(4)


def test_a_script_or_a_lower_limit_says_when_a_sequence_is_complete() -> None:
    assert (a_scripted().output_limit, a_scripted(max_output_tokens=2).output_limit) == (3, 2)


def test_the_output_of_a_script_cannot_be_given_as_well() -> None:
    with pytest.raises(ValueError, match="a script says the output"):
        a_scripted(output_token_ids=[20])
    with pytest.raises(ValueError, match="its script says its output"):
        a_scripted().output_token_ids = [20]


def test_an_empty_script_is_refused() -> None:
    with pytest.raises(ValueError, match="script is empty"):
        a_scripted(script=())


def test_a_token_must_be_named_where_no_script_says_it() -> None:
    with pytest.raises(ValueError, match="which token is it"):
        a_sequence().select(None)


def test_counts_that_follow_a_tick_go_on_from_where_they_were() -> None:
    sequence, tick = a_scripted(), Tick()
    sequence.num_computed_tokens = 2
    sequence.select(None)
    tick.now = 40
    sequence.follow(tick)
    tick.now = 41
    assert (sequence.num_computed_tokens, sequence.num_output_tokens) == (3, 2)
    sequence.leave()
    tick.now = 50
    assert (sequence.num_computed_tokens, sequence.num_output_tokens) == (3, 2)
