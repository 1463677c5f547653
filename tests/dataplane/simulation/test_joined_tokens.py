import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.scheduling.sequence import Sequence
from dataplane.simulation.joined_tokens import JoinedTokens

parts = st.lists(
    st.builds(
        lambda start, length: range(start, start + length), st.integers(-3, 3), st.integers(0, 6)
    ),
    min_size=1,
    max_size=5,
).filter(any)


def a_sequence(prompt: JoinedTokens | tuple[int, ...]) -> Sequence:
    return Sequence(
        request_id="r",
        sequence_id=0,
        prompt_token_ids=prompt,
        max_output_tokens=4,
        script=(7, 8, 9),
    )


@given(parts=parts, data=st.data())
def test_joined_ranges_are_read_as_their_tokens(parts: list[range], data: st.DataObject) -> None:
    joined, tokens = JoinedTokens(tuple(parts)), tuple(token for part in parts for token in part)
    assert tuple(joined) == tokens
    index = data.draw(st.integers(-len(tokens), len(tokens) - 1))
    assert joined[index] == tokens[index]
    start, stop = data.draw(st.integers(0, 20)), data.draw(st.integers(0, 20))
    assert joined[start:stop] == tokens[start:stop]


@pytest.mark.parametrize("index", [-4, 3])
def test_a_token_that_is_not_there_is_an_error(index: int) -> None:
    with pytest.raises(IndexError, match=f"3 tokens, none at {index}"):
        JoinedTokens((range(2), range(1)))[index]


@given(mine=parts, theirs=parts, num_selected=st.integers(0, 3), data=st.data())
def test_sequences_of_joined_ranges_are_compared_as_those_of_their_tokens(
    mine: list[range], theirs: list[range], num_selected: int, data: st.DataObject
) -> None:
    compact = [a_sequence(JoinedTokens(tuple(each))) for each in (mine, theirs)]
    plain = [a_sequence(tuple(each.prompt_token_ids)) for each in compact]
    for sequence in (*compact, *plain):
        for _ in range(num_selected):
            sequence.select(None)
    stop = data.draw(st.integers(0, min(sequence.num_tokens for sequence in compact)))
    start = data.draw(st.integers(0, stop))
    expected = 0
    for a, b in zip(plain[0].tokens(start, stop), plain[1].tokens(start, stop), strict=True):
        if a != b:
            break
        expected += 1
    for one, other in ((compact[0], compact[1]), (compact[0], plain[1]), (plain[0], plain[1])):
        assert one.num_same_tokens(other, start, stop) == expected
