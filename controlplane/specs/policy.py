"""AdmissionPolicy: who may enter, wait, be shed or degraded, under which limits."""

import re
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from controlplane.specs.kind import SpecModel, nearest
from controlplane.specs.match_expression import check_match
from controlplane.specs.names import Name
from controlplane.specs.quantity import Duration, Rate, Share, format_duration, parse_duration
from controlplane.specs.written import Written

_CONDITION = re.compile(r"([a-z_]+)\s*(>=|>)\s*(\S+)")
_CONDITION_SIGNALS = ("queue_age",)


def check_condition(text: str) -> str:
    """`text` in one canonical spelling. Raises ValueError unless it is `queue_age > 1s`."""
    match = _CONDITION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a condition; write it as queue_age > 1s")
    signal, operator, threshold = match.groups()
    if signal not in _CONDITION_SIGNALS:
        near = nearest(signal, _CONDITION_SIGNALS)
        hint = f"; did you mean {near}?" if near else "."
        raise ValueError(f"no signal {signal!r}{hint} Signals: {', '.join(_CONDITION_SIGNALS)}")
    return f"{signal} {operator} {format_duration(parse_duration(threshold))}"


Match = Annotated[
    str,
    AfterValidator(check_match),
    Written("CEL expression over tenant and request", 'tenant.tier == "gold"'),
]
"""CEL; see controlplane.specs.match_expression."""

Condition = Annotated[
    str,
    AfterValidator(check_condition),
    Written("condition: queue_age, > or >=, and a duration", "queue_age > 1s"),
]
"""A signal, > or >=, and a threshold."""


class RequestClassSpec(SpecModel):
    """One request class. The first whose `match` holds takes the request."""

    name: Name
    """What contracts, metrics and requests call the class."""
    match: Match | None = None
    """Which requests it takes; None takes every request."""
    priority: int = Field(default=0, ge=-1_000_000, le=1_000_000)
    """The class with the highest is scheduled first."""
    aging: Rate | None = None
    """Priority gained while waiting."""
    max_queue: int = Field(default=512, ge=0, le=1_000_000)
    """How many of its requests may wait; one more is rejected with 503."""
    deadline: Duration | None = None
    """Longest wait for engine work."""


class KVReserve(StrEnum):
    """What is set aside when a request starts."""

    NONE = "none"
    EXPECTED = "expected"
    """A quantile of what such requests generated."""
    FULL = "full"
    """All it may generate."""


class KVLimitsSpec(SpecModel):
    """How much KV cache is set aside for what a request may still generate."""

    reserve: KVReserve = KVReserve.EXPECTED
    """What is set aside when a request starts: nothing, what such requests generated, or all
    it may generate."""
    quantile: float = Field(default=0.9, gt=0, lt=1)
    """Of the lengths that such requests generated, where `reserve` is expected."""
    watermark: Share = 0.05
    """The share of all blocks that stays free for what already runs."""


class LimitsSpec(SpecModel):
    """Bounds on what runs at once."""

    max_active_per_replica: int | None = Field(default=None, ge=1, le=1_000_000, examples=[32])
    """Answers that one replica works on at once, where a request with `n` counts `n` times;
    None: as many as its engine takes."""
    kv: KVLimitsSpec | None = None
    """How much KV cache is set aside for what a request may still generate."""


class TenantLimitsSpec(SpecModel):
    """One tenant's share and bound."""

    weight: float = Field(default=1, gt=0, le=1_000_000)
    """Its share where several tenants wait: one of weight 2 gets twice the tokens of one of 1."""
    tokens_per_minute: int | None = Field(default=None, ge=1, le=10**12, examples=[200_000])
    """Prompt and output tokens together; None: no bound."""


class DegradeSpec(SpecModel):
    """Shorter answers instead of none."""

    when: Condition
    """When answers are shortened."""
    max_tokens: int = Field(ge=1, le=1_000_000, examples=[256])
    """How long they then may be."""


class OverloadSpec(SpecModel):
    """What gives way first when there is too much."""

    shed: tuple[Name, ...] = ()
    """Request classes, first to go first."""
    degrade: DegradeSpec | None = None
    """Shorter answers instead of none."""
    retry_budget: Share | None = None
    """How many requests may be tried again on another replica, of all that arrive."""


class AdmissionPolicySpec(SpecModel):
    """Classes in matching order, and limits."""

    classes: Annotated[tuple[RequestClassSpec, ...], Field(min_length=1)]
    """Request classes; the first whose `match` holds takes the request."""
    limits: LimitsSpec = LimitsSpec()
    """Bounds on what runs at once."""
    tenants: dict[Name, TenantLimitsSpec] = Field(default_factory=dict)
    """Shares and bounds by tenant."""
    overload: OverloadSpec | None = None
    """What gives way first when there is too much."""

    @field_validator("classes")
    @classmethod
    def _names_each_class_once(
        cls, classes: tuple[RequestClassSpec, ...]
    ) -> tuple[RequestClassSpec, ...]:
        names = [request_class.name for request_class in classes]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"class named twice: {', '.join(twice)}")
        return classes

    @model_validator(mode="after")
    def _sheds_classes_of_its_own(self) -> Self:
        names = {request_class.name for request_class in self.classes}
        strangers = [
            name for name in (self.overload.shed if self.overload else ()) if name not in names
        ]
        if strangers:
            raise ValueError(
                f"overload.shed names {', '.join(strangers)}, which is no class of this policy; "
                f"classes: {', '.join(sorted(names))}"
            )
        return self
