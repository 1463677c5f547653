"""Who gets the candidate: about the share that was asked for, and always the same."""

import pytest

from dataplane.arm import Arm, choose_arm

SESSIONS = [f"session-{number}" for number in range(20_000)]


def of_candidate(share: float, rollout: int = 1, tenant: str = "acme") -> set[str]:
    return {
        session
        for session in SESSIONS
        if choose_arm(rollout, share, tenant, session) is Arm.CANDIDATE
    }


@pytest.mark.parametrize("share", [0.0, 0.01, 0.05, 0.5, 1.0])
def test_it_is_about_the_share(share: float) -> None:
    deviation = (share * (1 - share) / len(SESSIONS)) ** 0.5
    assert abs(len(of_candidate(share)) / len(SESSIONS) - share) <= 4 * deviation


def test_who_had_it_at_a_small_share_keeps_it_at_a_larger_one() -> None:
    few, more = of_candidate(0.05), of_candidate(0.25)
    assert few < more
    assert of_candidate(0.05) == few


def test_another_rollout_and_another_tenant_draw_anew() -> None:
    one = of_candidate(0.5)
    for other in (of_candidate(0.5, rollout=2), of_candidate(0.5, tenant="open")):
        both = len(one & other) / len(SESSIONS)
        assert 0.23 < both < 0.27


def test_parts_of_a_key_are_not_run_together() -> None:
    drawn = {
        choose_arm(1, 0.5, "ab" * n, "c" * n)
        == choose_arm(1, 0.5, "a" + "ba" * (n - 1), "b" + "c" * n)
        for n in range(1, 60)
    }
    assert drawn == {True, False}
