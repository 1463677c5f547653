"""What the requests of both arms come to: all that is compared, and small however many there are.

Tallies of other requests add up to the one of all of them, so that each request is read once.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from controlplane.rollouts.analysis.arm_request import ArmRequest
from controlplane.rollouts.analysis.difference import Stratum
from controlplane.rollouts.analysis.measures import Measure
from controlplane.rollouts.analysis.moments import Moments
from dataplane.arm import Arm

Strata = Mapping[Hashable, Stratum]
"""By what makes requests alike, the values of both arms."""
PromiseKey = tuple[str | None, str, str]
"""Contract revision, request class and objective."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Requests of an arm that a promise applied to."""

    num: int = 0
    num_bad: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Of requests of both arms."""

    strata: Mapping[str, Strata]
    """By measure."""
    kept: Mapping[PromiseKey, Mapping[Arm, Kept]]

    def plus(self, other: "Tally") -> "Tally":
        """Of the requests of both, which share none. Both are of the same measures."""
        return Tally(
            strata={name: _add(of, other.strata[name]) for name, of in self.strata.items()},
            kept={
                key: _add_kept(self.kept.get(key, {}), other.kept.get(key, {}))
                for key in self.kept.keys() | other.kept.keys()
            },
        )


def tally_of(requests: Sequence[tuple[Arm, ArmRequest]], measures: Iterable[Measure]) -> Tally:
    """By each measure, and by all that was promised to them."""
    return Tally(
        strata={each.name: _stratify(requests, each) for each in measures},
        kept=_count_kept(requests),
    )


def _stratify(requests: Iterable[tuple[Arm, ArmRequest]], measure: Measure) -> Strata:
    values: dict[Hashable, dict[Arm, list[float]]] = defaultdict(lambda: {arm: [] for arm in Arm})
    for arm, request in requests:
        value = measure.value(request)
        if value is not None:
            values[measure.is_alike(request)][arm].append(value)
    return {
        alike: Stratum(Moments.of(of[Arm.STABLE]), Moments.of(of[Arm.CANDIDATE]))
        for alike, of in values.items()
    }


def _count_kept(
    requests: Iterable[tuple[Arm, ArmRequest]],
) -> dict[PromiseKey, dict[Arm, Kept]]:
    counted: dict[PromiseKey, dict[Arm, Kept]] = {}
    for arm, request in requests:
        for objective, is_kept in request.objectives.items():
            key = request.contract_revision, request.request_class, objective
            of_arm = counted.setdefault(key, {})
            before = of_arm.get(arm, Kept())
            of_arm[arm] = Kept(before.num + 1, before.num_bad + (not is_kept))
    return counted


def _add(one: Strata, other: Strata) -> Strata:
    nothing = Stratum(Moments(), Moments())
    added = dict(one)
    for alike, more in other.items():
        before = one.get(alike, nothing)
        added[alike] = Stratum(
            before.stable.plus(more.stable), before.candidate.plus(more.candidate)
        )
    return added


def _add_kept(one: Mapping[Arm, Kept], other: Mapping[Arm, Kept]) -> dict[Arm, Kept]:
    added = dict(one)
    for arm, more in other.items():
        before = one.get(arm, Kept())
        added[arm] = Kept(before.num + more.num, before.num_bad + more.num_bad)
    return added
