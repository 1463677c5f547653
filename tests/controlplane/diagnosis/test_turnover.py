"""A process that was started anew, and several that answer at one address by turns."""

from collections.abc import Iterable, Iterator, Sequence

import pytest

from controlplane.diagnosis.turnover import Counted, TurnoverWatch, takes_turns

HELD = 6


def pages(
    outputs: Iterable[float], starts: Sequence[float | None] | None = None
) -> Iterator[Counted]:
    """Every 5 s, with a prompt counter beside the output counter."""
    for index, output in enumerate(outputs):
        start = None if starts is None else starts[index]
        yield Counted(
            at=5.0 * index,
            counters={"prompt": 2 * output, "output": output},
            starts={} if start is None else {"started": start},
        )


def first_of(told: Iterable[Counted], num_held: int = HELD) -> float | None:
    """When the newest process that is believed to be new was first seen."""
    watch = TurnoverWatch(num_held)
    for page in told:
        watch.take(page)
    return None if watch.last is None else watch.last.first.at


def in_turns(each: int, num_pages: int) -> list[int]:
    """Which of two answers: `each` pages the one, then the other."""
    return [index // each % 2 for index in range(num_pages)]


@pytest.mark.parametrize("each", [1, 2, 3, 5])
@pytest.mark.parametrize("has_starts", [True, False])
def test_two_that_answer_by_turns_are_no_restart_on_any_page(each: int, has_starts: bool) -> None:
    turns = in_turns(each, 120)
    outputs = [(5000 if turn == 0 else 100) + 7 * n for n, turn in enumerate(turns)]
    starts = [float(1000 * turn) for turn in turns] if has_starts else None
    watch = TurnoverWatch(HELD)
    for page in pages(outputs, starts):
        watch.take(page)
        assert watch.last is None


def test_a_crash_is_told_after_a_young_process_fell_twice() -> None:
    young = [10, 50, 20, 60, 30, 70]
    later = [70 + 40 * n for n in range(1, 124)]
    crashed = [3 + 40 * n for n in range(HELD)]
    assert first_of(pages([*young, *later, *crashed])) == 5.0 * len([*young, *later])


def test_a_young_process_that_soon_counts_further_than_the_one_before_is_a_restart() -> None:
    assert first_of(pages([10, 50, 20, 60, 100, 140, 180, 220])) == 10


def test_what_comes_back_after_several_pages_is_no_restart() -> None:
    assert first_of(pages([5000, 5010, 20, 30, 40, 50, 5060, 5070, 5080, 5090])) is None


def test_a_restart_is_believed_only_once_it_was_held() -> None:
    told = list(pages([5000, 5010, 5020, *(20 * n for n in range(HELD))]))
    assert first_of(told[:-1]) is None
    assert first_of(told) == 15


def test_one_that_crashes_again_and_again_is_told_of_its_last() -> None:
    again = [5000, 5010, 3, 40, 80, 5, 44, *(84 + 40 * n for n in range(HELD))]
    assert first_of(pages(again)) == 25


def test_a_clock_that_is_set_starts_nothing_anew() -> None:
    told = pages([5000 + 10 * n for n in range(20)], [1.0] * 10 + [8.0] * 10)
    assert first_of(told) is None


def test_counters_that_are_set_back_without_a_new_start_are_no_restart() -> None:
    told = pages([*(5000 + 10 * n for n in range(10)), *(10 * n for n in range(10))], [1.0] * 20)
    assert first_of(told) is None


def test_turns_are_seen_by_what_comes_back() -> None:
    assert takes_turns(pages([900, 905, 20, 24, 910, 915]))
    assert not takes_turns(pages([900, 905, 20, 24, 28, 32]))
