"""Invariants 1 to 6 of random fleets with every fault, whoever looks at them, and when.
`ops/endurance/random_fleet.py` does a thousand."""

import pytest

from ops.endurance.case_run import run_twice
from ops.endurance.random_case import RandomCase


@pytest.mark.parametrize("number", range(25))
def test_the_invariants_hold_at_random_moments_of_a_random_fleet(number: int) -> None:
    run = run_twice(RandomCase(number=number))
    assert run.watch.num_checks > 20
    assert run.exporters is not None
    assert run.exporters.num_scrapes > 0
