import pytest

from dataplane.simulation.prefill_wait import PrefillWait, least_wait


def wait(queue: float, uncached: int) -> PrefillWait:
    return PrefillWait(queue_seconds=queue, num_uncached_tokens=uncached, tokens_per_second=100)


def test_the_wait_is_the_queue_and_what_is_not_cached() -> None:
    assert wait(1.5, 50).seconds == 2.0
    assert wait(1.5, 50).prefill_seconds == 0.5


def test_of_equal_waits_the_lowest_name_is_taken_in_whatever_order_they_come() -> None:
    assert least_wait({"b": wait(1, 0), "a": wait(0, 100), "c": wait(2, 0)}) == "a"


def test_without_a_worker_there_is_nothing_to_choose() -> None:
    with pytest.raises(ValueError, match="empty"):
        least_wait({})
