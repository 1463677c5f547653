"""Lines are found by plain words first, which loses none and takes a bounded time."""

import re

import pytest

from controlplane.diagnosis.line_search import MOST_SEARCHED, LineSearch
from controlplane.diagnosis.needed_words import needed_words
from controlplane.diagnosis.stretch import stretch_of
from controlplane.diagnosis.window import Window


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"rate limit|too many", {"rate limit", "too many"}),
        (r"\b(?:Out of Memory|oom)\b.*killed", {"killed"}),
        (r"(?:evict(?:ed|ion)|dropped)s?", {"evict", "dropped"}),
        (r"colou?r", {"colo"}),
        (r"ab+c{2}d{0,3}ef", {"ab"}),
        (r"x(?=yes)y[|)\]a]z(?!no)end", {"zend"}),
        (r"\d+ (?P<what>tokens|blocks)", {"tokens", "blocks"}),
        (r"HTTP/1\.1\" 5\d\d", {'http/1.1" 5'}),
        (r"waits?|.", None),
        (r"(?i)waits", None),
        (r"\x1bwaits", None),
        (r"(waits)?", None),
    ],
)
def test_words_that_an_expression_needs(pattern: str, words: set[str] | None) -> None:
    assert needed_words(pattern) == words


def test_the_same_lines_match_as_without_words() -> None:
    lines = ["Rate Limit reached", "nothing", "", "HTTP 429", "the rate is limited"]
    for pattern in (r"rate limit|\b429\b", r"limit(?:ed|s)?$", r"^$", r"no(?:t|thing)"):
        wanted = re.compile(pattern, re.IGNORECASE)
        found = [lines[place] for place in LineSearch(lines).places(pattern)]
        assert found == list(filter(wanted.search, lines))


def test_of_too_much_the_longest_lines_lose_their_middle_and_the_others_nothing() -> None:
    long = f"begins {'x' * MOST_SEARCHED} middle {'x' * MOST_SEARCHED} ends"
    short = f"{'y' * 900} middle"
    search = LineSearch([long, short])

    assert search.places("middle") == (1,)
    assert search.places("begins.*ends") == (0,)


def test_a_stretch_of_a_window_finds_its_own_lines_alone() -> None:
    lines = ("shed 1", "quiet", "shed 2")
    window = Window(start=0.0, end=20.0, lines=lines, line_times=(0.0, 10.0, 20.0))

    assert window.places_with("shed") == (0, 2)
    assert stretch_of(window, 5.0, 20.0).lines_with("shed") == ("shed 2",)
    assert stretch_of(window, 5.0, 20.0).places_with("shed") == (1,)
