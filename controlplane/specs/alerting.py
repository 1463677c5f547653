"""What a contract says of its alerts."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from controlplane.slo.alert_windows import GradeName
from controlplane.slo.alerting import DEFAULT_MIN_EVENTS, DEFAULT_TERMS, AlertTerms
from controlplane.specs.kind import SpecModel
from controlplane.specs.names import Name


class AlertingSpec(SpecModel):
    """When the alerts of a burning budget speak, and whose they are."""

    min_events: Annotated[int, Field(ge=1, le=1_000_000)] = DEFAULT_MIN_EVENTS
    """Requests that an objective must have judged in the long window of an alert before it may
    fire: of three requests one that fails is no trend."""
    off: Annotated[tuple[GradeName, ...], Field(examples=[["ticket_slow"]])] = ()
    """Grades of which no alert is made."""
    team: Annotated[Name | None, Field(examples=["chat-oncall"])] = None
    """Whose alerts they are: a label of each alert in Prometheus, by which Alertmanager can
    route."""

    @model_validator(mode="after")
    def _turns_each_grade_off_once(self) -> Self:
        twice = sorted({grade for grade in self.off if self.off.count(grade) > 1})
        if twice:
            raise ValueError(f"off names {', '.join(twice)} more than once")
        return self


def alert_terms(spec: AlertingSpec | None) -> AlertTerms:
    """As whoever evaluates alerts takes them."""
    if spec is None:
        return DEFAULT_TERMS
    return AlertTerms(min_events=spec.min_events, off=frozenset(spec.off), team=spec.team)
