import pytest

from dataplane.scheduling.cohort import Cohort
from dataplane.scheduling.sequence import Sequence

BLOCK_SIZE = 4


def a_decoding(
    rank: int, num_prompt: int, script: range | None = None, limit: int = 100
) -> Sequence:
    """Its prompt has KV and its first token is selected."""
    sequence = Sequence(
        request_id=f"r{rank}",
        sequence_id=rank,
        prompt_token_ids=range(num_prompt),
        max_output_tokens=limit,
        script=script,
    )
    sequence.rank = rank
    sequence.num_computed_tokens = num_prompt
    sequence.select(None if script else 7)
    return sequence


def a_cohort(*sequences: Sequence) -> Cohort:
    cohort = Cohort(BLOCK_SIZE)
    for sequence in sequences:
        cohort.join(sequence)
    cohort.check_integrity()
    return cohort


def test_members_advance_with_the_tick_and_are_told_nothing() -> None:
    early = a_decoding(1, 6, range(50))
    cohort = a_cohort(early)
    cohort.tick.now += 3
    late = a_decoding(2, 9, range(50))
    cohort.join(late)
    cohort.tick.now += 2
    cohort.check_integrity()
    assert (early.num_computed_tokens, early.output_token_ids) == (11, [0, 1, 2, 3, 4, 5])
    assert (late.num_computed_tokens, late.output_token_ids) == (11, [0, 1, 2])
    assert early.is_decoding
    assert late.is_decoding
    assert cohort.num_context_tokens == 12 + 12


def test_who_leaves_stays_where_it_was() -> None:
    sequence, other = a_decoding(1, 6, range(50)), a_decoding(2, 3)
    cohort = a_cohort(sequence, other)
    cohort.tick.now += 3
    cohort.leave(sequence)
    cohort.tick.now += 5
    assert (sequence.num_computed_tokens, sequence.num_output_tokens) == (9, 4)
    assert [m.sequence for m in cohort.members] == [other]
    assert cohort.num_context_tokens == 3 + 8 + 1


def test_who_begins_a_block_is_visited_oldest_first_whoever_joined_first() -> None:
    newest, oldest, elsewhere = a_decoding(3, 8), a_decoding(1, 12), a_decoding(2, 9)
    cohort = a_cohort(newest, elsewhere, oldest)
    seen = []
    for _ in range(5):
        seen.append([m.sequence.rank for m in cohort.crossing])
        cohort.tick.now += 1
    assert seen == [[1, 3], [], [], [2], [1, 3]]


def test_a_member_ends_with_its_script_or_its_limit() -> None:
    by_script = a_decoding(1, 4, range(3))
    by_limit = a_decoding(2, 4, range(50), limit=4)
    told = a_decoding(3, 4, limit=2)
    cohort = a_cohort(by_script, by_limit, told)
    ended = {}
    for _ in range(4):
        ended[cohort.tick.now] = list(cohort.ending)
        cohort.tick.now += 1
    assert ended == {0: [], 1: [], 2: [by_script], 3: [by_limit]}
    assert cohort.unscripted() == [told]


def test_a_list_of_members_that_was_taken_does_not_change() -> None:
    first, second = a_decoding(1, 4), a_decoding(2, 4)
    cohort = a_cohort(first, second)
    taken = cohort.members
    cohort.leave(first)
    assert [m.sequence for m in taken] == [first, second]
    assert [m.sequence for m in cohort.members] == [second]


def test_a_member_whose_limit_was_changed_behind_the_cohorts_back_is_reported() -> None:
    sequence = a_decoding(1, 4, range(9))
    cohort = a_cohort(sequence)
    sequence.max_output_tokens = 3
    with pytest.raises(AssertionError, match="ends at 8"):
        cohort.check_integrity()


def test_a_member_that_was_moved_alone_is_reported() -> None:
    sequence = a_decoding(1, 4)
    cohort = a_cohort(sequence)
    sequence.num_computed_tokens = 3
    with pytest.raises(AssertionError, match="is a member"):
        cohort.check_integrity()
