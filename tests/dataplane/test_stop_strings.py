"""A stop string never leaks, wherever the text was cut."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.stop_strings import StopMatcher

# Few letters, so that stops occur, overlap and nearly occur.
_text = st.text(alphabet="abc", max_size=30)
_stops = st.lists(st.text(alphabet="abc", min_size=1, max_size=5), max_size=4)


def _cut(text: str, places: list[int]) -> list[str]:
    bounds = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(bounds)]


def _expect(text: str, stops: list[str]) -> str:
    """Read the text letter by letter: stop at the first letter that completes any stop."""
    for end in range(len(text) + 1):
        completed = [stop for stop in stops if text[:end].endswith(stop)]
        if completed:
            return text[: end - max(map(len, completed))]
    return text


@given(_text, _stops, st.lists(st.integers(0, 100), max_size=8))
def test_output_is_the_text_before_the_stop_that_is_completed_first(
    text: str, stops: list[str], places: list[int]
) -> None:
    matcher = StopMatcher(stops)
    output = "".join(matcher.add(fragment).text for fragment in _cut(text, places))
    output += matcher.flush()
    assert output == _expect(text, stops)


@given(_text, _stops, st.lists(st.integers(0, 100), max_size=8))
def test_what_is_held_back_is_never_more_than_could_become_a_stop(
    text: str, stops: list[str], places: list[int]
) -> None:
    matcher = StopMatcher(stops)
    seen = output = ""
    for fragment in _cut(text, places):
        result = matcher.add(fragment)
        if result.is_matched:
            break
        seen += fragment
        output += result.text
        held = seen[len(output) :]
        assert held == "" or any(stop.startswith(held) and stop != held for stop in stops)


def test_a_stop_across_three_fragments_is_found() -> None:
    matcher = StopMatcher(["\nUser:"])
    assert matcher.add("fine.\nU").text == "fine."
    assert matcher.add("ser").text == ""
    result = matcher.add(": more")
    assert (result.text, result.is_matched) == ("", True)
    assert matcher.flush() == ""


def test_held_text_is_given_out_when_it_turns_out_to_be_harmless() -> None:
    matcher = StopMatcher(["fox"])
    assert matcher.add("the fo").text == "the "
    assert matcher.add("od").text == "food"


def test_after_a_match_everything_is_swallowed() -> None:
    matcher = StopMatcher(["x"])
    matcher.add("x")
    assert matcher.add("more").text == ""


def test_an_empty_stop_is_refused() -> None:
    with pytest.raises(ValueError, match="empty stop"):
        StopMatcher([""])
