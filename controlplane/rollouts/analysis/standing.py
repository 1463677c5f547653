"""Each arm against the contract: how fast it spends each error budget. Pure.

A burn rate is the share of bad requests divided by the share that the contract allows; at 1 the
budget lasts for its whole period. A candidate that surely burns at `max_burn_rate` or more, and
surely faster than the stable arm, is rejected whatever else was measured. Where it is not surely
faster, both may suffer from the same: that throws no candidate out, and promotes none. Nor is one
promoted that surely burns above 1 where the stable arm may still keep the promise: a margin that
is small beside all requests may be all of an error budget.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from controlplane.rollouts.analysis.difference import Interval
from controlplane.rollouts.analysis.share_bounds import least_share, most_share
from controlplane.rollouts.analysis.tally import Kept, PromiseKey
from controlplane.slo.burn_rate import budget_of
from controlplane.slo.promised import Promise
from dataplane.arm import Arm


class Burning(StrEnum):
    """How a candidate stands to one promise."""

    NO = "no"
    """Not surely above 1, or both arms are and none is surely too fast."""
    TOO_FAST = "too_fast"
    """Surely, and surely faster than the stable arm; or that gets no requests any more."""
    WITH_STABLE = "with_stable"
    """Surely too fast, and not surely faster than the stable arm."""
    MISSES = "misses"
    """Surely above 1 and not surely too fast, where the stable arm is not surely above 1."""
    UNKNOWN = "unknown"
    """No request of it was judged by this promise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The arms before one promise of the contract."""

    promise: Promise
    kept: Mapping[Arm, Kept]
    burn: Mapping[Arm, Interval | None]
    """Rate at which the budget is spent; None: nothing was judged."""
    max_burn_rate: float
    burning: Burning

    @property
    def in_words(self) -> str:
        """The candidate's burn rate, and the stable arm's."""
        candidate, stable = self.burn[Arm.CANDIDATE], self.burn[Arm.STABLE]
        if candidate is None:
            return f"{self.promise.name} not known"
        beside = "" if stable is None else f", the stable arm at {stable.estimate:.3g}"
        return (
            f"{self.promise.name} burns at {candidate.estimate:.3g} (at least "
            f"{candidate.low:.3g}{beside}) times what {self.promise.contract_revision} allows"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingTerms:
    """How sure one has to be."""

    alpha: float
    """What all promises of a step may be wrong by, 0 to 1."""
    max_burn_rate: float


def find_standings(
    counted: Mapping[PromiseKey, Mapping[Arm, Kept]],
    promises: Sequence[Promise],
    terms: StandingTerms,
) -> list[Standing]:
    """One for each promise, in their order, of the requests that were judged by its revision."""
    alpha = terms.alpha / len(promises) if promises else terms.alpha
    return [
        _stand(each, counted.get(_key(each), {}), alpha, terms.max_burn_rate) for each in promises
    ]


def _key(promise: Promise) -> PromiseKey:
    return promise.contract_revision, promise.request_class, promise.objective


def _stand(
    promise: Promise, counted: Mapping[Arm, Kept], alpha: float, max_burn_rate: float
) -> Standing:
    kept = {arm: counted.get(arm, Kept()) for arm in Arm}
    burn = {
        arm: _burn(of_arm, float(budget_of(promise.target)), alpha) for arm, of_arm in kept.items()
    }
    return Standing(
        promise=promise,
        kept=kept,
        burn=burn,
        max_burn_rate=max_burn_rate,
        burning=_judge(burn[Arm.STABLE], burn[Arm.CANDIDATE], max_burn_rate),
    )


def _judge(stable: Interval | None, candidate: Interval | None, max_burn_rate: float) -> Burning:
    if candidate is None:
        return Burning.UNKNOWN
    if candidate.low < max_burn_rate:
        keeps_it = stable is None or stable.low <= 1
        return Burning.MISSES if candidate.low > 1 and keeps_it else Burning.NO
    is_surely_faster = stable is None or candidate.low > stable.high
    return Burning.TOO_FAST if is_surely_faster else Burning.WITH_STABLE


def _burn(kept: Kept, budget: float, alpha: float) -> Interval | None:
    """`budget`: the share of requests that may be bad, above 0 and below 1."""
    if not kept.num:
        return None
    return Interval(
        estimate=kept.num_bad / kept.num / budget,
        low=least_share(kept.num, kept.num_bad, alpha) / budget,
        high=most_share(kept.num, kept.num_bad, alpha) / budget,
    )
