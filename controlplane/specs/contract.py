"""SLOContract: what each request class is promised."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from controlplane.specs.alerting import AlertingSpec
from controlplane.specs.kind import SpecModel
from controlplane.specs.names import Name
from controlplane.specs.quantity import Duration, Target
from dataplane.contract_terms import WITHOUT_BOUND, ObjectiveSignal
from dataplane.latency import Boundary


class ObjectiveSpec(SpecModel):
    """One promise: `signal` at most so long, for this share of the requests."""

    signal: ObjectiveSignal
    """What is measured."""
    at_most: Duration | None = None
    """The bound; every signal but acceptance and availability needs one."""
    target: Target = Field(alias="for")
    """The share of requests that must keep it."""

    @model_validator(mode="after")
    def _has_a_threshold_where_one_belongs(self) -> Self:
        if self.signal in WITHOUT_BOUND:
            if self.at_most is not None:
                raise ValueError(f"{self.signal} has no at_most: a request has it or it has not")
        elif self.at_most is None:
            raise ValueError(f"{self.signal} needs at_most, such as at_most: 300ms")
        return self


class TogetherSpec(SpecModel):
    """The joint promise: these signals hold in the same request."""

    of: Annotated[tuple[ObjectiveSignal, ...], Field(min_length=2)]
    """Signals that have an objective of their own here."""
    target: Target = Field(alias="for")
    """The share of requests in which all of them must hold."""


class ClassContractSpec(SpecModel):
    """What one request class is promised."""

    objectives: Annotated[
        tuple[ObjectiveSpec, ...],
        Field(min_length=1, examples=[[{"signal": "ttft", "at_most": "300ms", "for": "99%"}]]),
    ]
    """Promises, each signal once."""
    together: TogetherSpec | None = None
    """The joint promise: these signals hold in the same request."""

    @model_validator(mode="after")
    def _names_each_signal_once(self) -> Self:
        signals = [objective.signal for objective in self.objectives]
        twice = sorted({signal for signal in signals if signals.count(signal) > 1})
        if twice:
            raise ValueError(f"more than one objective on {', '.join(twice)}")
        strangers = sorted(set(self.together.of) - set(signals)) if self.together else []
        if strangers:
            raise ValueError(f"together names {', '.join(strangers)}, which has no objective")
        return self


class SLOContractSpec(SpecModel):
    """Objectives by request class, at one boundary, over one window."""

    boundary: Boundary
    """Where latencies are measured: engine (a token is selected), server (a fragment leaves the
    gateway) or client (it is received, as far as clients report it)."""
    window: Annotated[Duration, Field(examples=["30d"])]
    """The time over which the error budget is spent."""
    classes: Annotated[dict[Name, ClassContractSpec], Field(min_length=1)]
    """What each request class is promised, by its name in the policy."""
    alerting: AlertingSpec | None = None
    """When alerts of a burning budget speak, and whose they are."""
