"""Every promise that a deployment's contract makes, one by one."""

from collections.abc import Iterator
from dataclasses import dataclass

from controlplane.slo.alerting import DEFAULT_TERMS, AlertTerms
from controlplane.specs.alerting import alert_terms
from controlplane.specs.contract import ClassContractSpec, SLOContractSpec
from dataplane import names


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One objective of one request class of one deployment."""

    deployment: str
    request_class: str
    objective: str
    """A signal, or `together`."""
    at_most_seconds: float | None
    """None for acceptance, availability and `together`."""
    target: float
    """Share of requests, above 0 and below 1."""
    period_seconds: float
    """Of the error budget."""
    contract_revision: str
    """As `chat@7`."""
    alerting: AlertTerms = DEFAULT_TERMS
    """What the contract says of its alerts."""

    @property
    def name(self) -> str:
        """Of one alone, for people: `interactive ttft`."""
        return f"{self.request_class} {self.objective}"


def promises_of(deployment: str, revision: str, spec: SLOContractSpec) -> Iterator[Promise]:
    """In the contract's order. `revision` is `name@number`."""
    alerting = alert_terms(spec.alerting)
    for request_class, promised in spec.classes.items():
        for objective, at_most, target in _objectives(promised):
            yield Promise(
                deployment=deployment,
                request_class=request_class,
                objective=objective,
                at_most_seconds=at_most,
                target=target,
                period_seconds=spec.window,
                contract_revision=revision,
                alerting=alerting,
            )


def _objectives(promised: ClassContractSpec) -> Iterator[tuple[str, float | None, float]]:
    for objective in promised.objectives:
        yield objective.signal.value, objective.at_most, objective.target
    if promised.together is not None:
        yield names.TOGETHER, None, promised.together.target
