"""On how many requests a policy in shadow decides otherwise, and what comes of it."""

from collections.abc import Sequence

import pytest

from controlplane.rollouts.analysis.shadow import ShadowGroup, ShadowSeen, judge_shadow
from controlplane.rollouts.verdict import Verdict


def group(num: int, *, differs: bool | None) -> ShadowGroup:
    return ShadowGroup(
        request_class="interactive",
        enforced="admitted",
        outcome={True: "rejected", False: "admitted", None: "unknown"}[differs],
        shadow_class="interactive",
        kind="tenant_tokens" if differs else "",
        differs=differs,
        num=num,
        example="r1",
    )


def verdict(groups: Sequence[ShadowGroup], at_most: float | None) -> Verdict:
    seen = ShadowSeen(groups=groups)
    return judge_shadow(seen, min_requests=200, alpha=0.001, at_most=at_most).verdict


@pytest.mark.parametrize(
    ("num_alike", "num_differing", "at_most", "expected"),
    [
        (0, 0, None, Verdict.UNDECIDED),
        (150, 49, None, Verdict.UNDECIDED),
        (150, 50, None, Verdict.PROMOTE),
        (1000, 0, 0.02, Verdict.PROMOTE),
        (980, 20, 0.02, Verdict.UNDECIDED),
        (850, 150, 0.02, Verdict.REJECT),
    ],
)
def test_it_goes_on_once_enough_is_known(
    num_alike: int, num_differing: int, at_most: float | None, expected: Verdict
) -> None:
    groups = [group(num_alike, differs=False), group(num_differing, differs=True)]
    assert verdict(groups, at_most) is expected


def test_what_nobody_knows_is_counted_apart_and_says_nothing() -> None:
    seen = ShadowSeen(groups=[group(10, differs=True), group(500, differs=None)])
    assert (seen.num_compared, seen.num_differing, seen.num_unknown) == (10, 10, 500)
    assert verdict(seen.groups, 0.02) is Verdict.UNDECIDED
    assert ShadowSeen().differing(0.01) is None
