"""A policy that only looks on: on how many requests it would have decided otherwise. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.rollouts.analysis.difference import Interval
from controlplane.rollouts.analysis.share_bounds import least_share, most_share
from controlplane.rollouts.verdict import Decision, Measurement, Verdict

_METRIC = "decided otherwise"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowGroup:
    """Requests that both policies treated in the same two ways."""

    request_class: str
    """As it is enforced; empty: none took them."""
    enforced: str
    """admitted, degraded or rejected."""
    outcome: str
    """The same of the policy that looks on, or unknown."""
    shadow_class: str
    """Its class of them; empty as above."""
    kind: str
    """Why it would refuse them; empty where it would not."""
    differs: bool | None
    """None: nobody knows."""
    num: int
    example: str
    """Id of one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowTenant:
    """A tenant whose requests it would have decided otherwise on."""

    name: str
    num_differing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowSeen:
    """All of a step in shadow so far."""

    groups: Sequence[ShadowGroup] = ()
    """Those that differ first, the largest first."""
    tenants: Sequence[ShadowTenant] = ()
    """Most hurt or helped first, at most ten."""

    @property
    def num_compared(self) -> int:
        """Requests of which both decisions are known."""
        return sum(each.num for each in self.groups if each.differs is not None)

    @property
    def num_differing(self) -> int:
        """Of these."""
        return sum(each.num for each in self.groups if each.differs)

    @property
    def num_unknown(self) -> int:
        """Requests of which nobody knows what it would have come to."""
        return sum(each.num for each in self.groups if each.differs is None)

    def differing(self, alpha: float) -> Interval | None:
        """The share that it decides otherwise on, 0 to 1; None: nothing was compared. `alpha`: how
        often, at most, each end may ever be wrong."""
        num, num_differing = self.num_compared, self.num_differing
        if not num:
            return None
        return Interval(
            estimate=num_differing / num,
            low=least_share(num, num_differing, alpha),
            high=most_share(num, num_differing, alpha),
        )


def judge_shadow(
    seen: ShadowSeen, *, min_requests: int, alpha: float, at_most: float | None
) -> Decision:
    """Whether the step ends well. `at_most`: the share that may differ, 0 to 1; None: any."""
    share, num = seen.differing(alpha), seen.num_compared
    if share is None or num < min_requests:
        reason = f"{num} of its decisions can be compared, {min_requests} are needed"
        return Decision(verdict=Verdict.UNDECIDED, reason=reason)
    words = f"it decides otherwise on {100 * share.estimate:.3g} % of {num} requests"
    if at_most is None:
        return Decision(verdict=Verdict.PROMOTE, reason=words)
    words += (
        f" ({100 * share.low:.3g} to {100 * share.high:.3g} %), where {100 * at_most:.3g} % may be"
    )
    if share.low > at_most:
        bad = Measurement(metric=_METRIC, value=share.estimate, is_good=False)
        return Decision(verdict=Verdict.REJECT, reason=words, deciding=bad)
    is_within = share.high <= at_most
    return Decision(verdict=Verdict.PROMOTE if is_within else Verdict.UNDECIDED, reason=words)
