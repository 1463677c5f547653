"""How many replicas the arms have, and what share they can carry."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.rollouts.arm_sizes import ArmSizes, arm_sizes


@pytest.mark.parametrize(
    ("num", "share", "surge", "unavailable", "expected"),
    [
        (4, 0.05, 0, 1, ArmSizes(3, 1)),
        (4, 0.05, 1, 0, ArmSizes(4, 1)),
        (4, 0.5, 0, 1, ArmSizes(3, 1)),
        (4, 0.5, 2, 0, ArmSizes(4, 2)),
        (4, 0.5, 1, 1, ArmSizes(3, 2)),
        (1, 0.5, 0, 1, ArmSizes(1, 0)),
        (2, 0.5, 0, 2, ArmSizes(1, 1)),
        (1, 0.5, 1, 0, ArmSizes(1, 1)),
        (0, 0.5, 1, 0, ArmSizes(0, 0)),
    ],
)
def test_the_candidate_takes_what_surge_adds_and_what_may_be_missing(
    num: int, share: float, surge: int, unavailable: int, expected: ArmSizes
) -> None:
    assert arm_sizes(num, share, surge, unavailable) == expected


@given(st.integers(0, 50), st.floats(0.001, 1), st.integers(0, 5), st.integers(0, 5))
def test_the_stable_arm_gives_up_no_more_than_may_be_missing(
    num: int, share: float, surge: int, unavailable: int
) -> None:
    sizes = arm_sizes(num, share, surge, unavailable)
    assert sizes.stable >= max(num - unavailable, min(num, 1))
    assert sizes.stable + sizes.candidate <= num + surge
    assert 0 <= sizes.limit(share) <= share


def test_a_share_is_no_more_than_the_candidates_part_of_the_replicas() -> None:
    assert ArmSizes(3, 1).limit(0.5) == 0.25
    assert ArmSizes(3, 1).limit(0.05) == 0.05
    assert ArmSizes(0, 0).limit(0.5) == 0
