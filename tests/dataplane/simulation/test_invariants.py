"""Invariants 1 to 6 in every simulated second. `ops/endurance/random_fleet.py` does a thousand."""

import pytest

from ops.endurance.random_fleet import run_both


@pytest.mark.parametrize("number", range(25))
def test_the_invariants_hold_in_every_second_of_a_random_fleet(number: int) -> None:
    watch = run_both(number)
    assert watch.num_checks > 20
