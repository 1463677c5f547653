"""Crash loops wait longer and longer; a single failure does not wait."""

from controlplane.operator.backoff import Backoff, delay_seconds


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_delays_double_up_to_a_minute() -> None:
    delays = [delay_seconds(n) for n in range(10)]
    assert delays == [0, 0, 1, 2, 4, 8, 16, 32, 60, 60]
    assert delay_seconds(10_000) == 60


def test_a_first_failure_is_replaced_at_once() -> None:
    backoff = Backoff(Clock())
    backoff.note_failure("chat", "d", "boom", ready_seconds=None)
    assert backoff.find_hold("chat", "d") is None


def test_a_loop_is_held_and_says_how_long_and_why() -> None:
    clock = Clock()
    backoff = Backoff(clock)
    for _ in range(4):
        backoff.note_failure("chat", "d", "boom", ready_seconds=1.0)
    hold = backoff.find_hold("chat", "d")
    assert hold == "failed 4 times in a row, next start in 4 s; last: boom"
    clock.now += 4
    assert backoff.find_hold("chat", "d") is None


def test_a_steady_replica_ends_the_row() -> None:
    backoff = Backoff(Clock())
    for _ in range(4):
        backoff.note_failure("chat", "d", "boom", ready_seconds=None)
    backoff.note_failure("chat", "d", "late", ready_seconds=3600.0)
    assert backoff.find_hold("chat", "d") is None


def test_failures_are_counted_while_the_next_one_starts_and_forgotten_once_all_are_steady() -> None:
    clock = Clock()
    backoff = Backoff(clock)
    for _ in range(4):
        backoff.note_failure("chat", "d", "boom", ready_seconds=None)
    clock.now += 3600
    assert backoff.num_failures("chat", "d") == 4
    backoff.note_all_ready("chat", 59)
    assert backoff.num_failures("chat", "d") == 4
    backoff.note_all_ready("chat", 60)
    assert backoff.num_failures("chat", "d") == 0


def test_a_changed_spec_is_a_fresh_start_and_deployments_do_not_share() -> None:
    backoff = Backoff(Clock())
    for _ in range(4):
        backoff.note_failure("chat", "d", "boom", ready_seconds=None)
    assert backoff.find_hold("chat", "other") is None
    assert backoff.find_hold("batch", "d") is None
    backoff.note_failure("chat", "other", "boom", ready_seconds=None)
    assert backoff.find_hold("chat", "other") is None
    assert backoff.num_failures("chat", "d") == 0
    assert backoff.num_failures("chat", "other") == 1
