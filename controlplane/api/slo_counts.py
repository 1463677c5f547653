"""What a deployment promised and kept lately, class by class and objective by objective."""

from dataclasses import dataclass

from controlplane.specs.contract import ClassContractSpec, SLOContractSpec
from dataplane import names
from dataplane.contract_terms import ObjectiveSignal

IN_CONTRACT = "in_contract"


@dataclass(frozen=True, slots=True, kw_only=True)
class SloCount:
    """One promise, or all of a class at once."""

    request_class: str
    objective: str
    """A signal, together, or in_contract: every objective of the request at once."""
    at_most_seconds: float | None
    promised_share: float | None
    """None: not promised by itself, or not by the contract in force now."""
    num_good: int
    num_judged: int
    kept_share: float | None
    """None: nothing was judged."""
    is_missed: bool
    """Less was kept than is promised."""


def slo_counts(
    counts: dict[str, dict[str, int]], contract: SLOContractSpec | None
) -> list[SloCount]:
    """By class, in the contract's order; classes that it does not name follow.

    `counts` are measures by class, as minute_counts has them.
    """
    promised = {} if contract is None else contract.classes
    classes = [*promised, *sorted(set(counts) - set(promised))]
    return [count for name in classes for count in _of_class(name, counts.get(name, {}), contract)]


def _of_class(
    name: str, counts: dict[str, int], contract: SLOContractSpec | None
) -> list[SloCount]:
    terms = None if contract is None else contract.classes.get(name)
    order = (IN_CONTRACT, *(signal.value for signal in ObjectiveSignal), names.TOGETHER)
    found = (_of_objective(name, objective, counts, terms) for objective in order)
    return [each for each in found if each is not None]


def _of_objective(
    request_class: str, objective: str, counts: dict[str, int], terms: ClassContractSpec | None
) -> SloCount | None:
    """None where it is neither promised nor judged."""
    objectives = {} if terms is None else {o.signal.value: o for o in terms.objectives}
    together = terms.together if terms is not None and objective == names.TOGETHER else None
    promise = objectives.get(objective)
    target = promise.target if promise else None
    target = together.target if together is not None else target
    measure = objective if objective == IN_CONTRACT else f"objective.{objective}"
    judged = counts.get(f"{measure}.total", 0)
    if not judged and promise is None and together is None:
        return None
    good = counts.get(f"{measure}.good", 0)
    kept = good / judged if judged else None
    return SloCount(
        request_class=request_class,
        objective=objective,
        at_most_seconds=promise.at_most if promise else None,
        promised_share=target,
        num_good=good,
        num_judged=judged,
        kept_share=kept,
        is_missed=kept is not None and target is not None and kept < target,
    )
