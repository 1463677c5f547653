"""AdmissionPolicy: who may enter, wait, be shed or degraded, under which limits."""

import re
from random import Random
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from controlplane.specs.kind import SpecModel, nearest
from controlplane.specs.match_expression import check_match
from controlplane.specs.names import Name
from controlplane.specs.quantity import (
    Duration,
    Rate,
    Share,
    Size,
    format_duration,
    parse_duration,
)
from controlplane.specs.written import Written
from dataplane.policy import KVReserve, RoutingTerms
from dataplane.routing.builtin import BUILTIN_POLICIES
from dataplane.routing.terms import create_builtin, create_routing
from dataplane.slow_client_terms import SlowClientAction

_CONDITION = re.compile(r"([a-z_]+)\s*(>=|>)\s*(\S+)")
_CONDITION_SIGNALS = ("queue_age",)
_HEADER_NAME = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
_ROUTING_POLICY = re.compile(r"[a-z][a-z0-9_]*")


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


def read_condition(text: str) -> tuple[float, bool]:
    """The threshold of a checked condition, in seconds, and whether it holds there already."""
    _, operator, threshold = text.split(" ")
    return parse_duration(threshold), operator == ">="


def check_header_name(text: str) -> str:
    """`text` in lower case. Raises ValueError when no HTTP header can have this name."""
    name = text.lower()
    if len(name) > 64 or not _HEADER_NAME.fullmatch(name):
        raise ValueError(
            f"{text[:80]!r} is no name of a header: at most 64 letters, digits and hyphens, "
            f"such as x-session-id"
        )
    return name


def check_routing_policy(text: str) -> str:
    """`text`, when a routing policy could have this name. Raises ValueError."""
    if len(text) > 63 or not _ROUTING_POLICY.fullmatch(text):
        raise ValueError(
            f"{text[:80]!r} is no name of a routing policy: lower-case letters, digits and _, "
            f"such as two_choices"
        )
    return text


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

HeaderName = Annotated[
    str, AfterValidator(check_header_name), Written("name of an HTTP header", "x-session-id")
]
"""In lower case."""

RoutingPolicyName = Annotated[
    str, AfterValidator(check_routing_policy), Written("name of a routing policy", "two_choices")
]
"""Of those that gateways have installed."""


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
    first_token: Duration | None = None
    """Longest wait for the first token: how long it takes once engine work begins is measured, and
    the wait for that is bounded by the rest. None: no limit but `deadline`."""


class KVLimitsSpec(SpecModel):
    """How much KV cache is set aside for what a request may still generate."""

    reserve: KVReserve = KVReserve.EXPECTED
    """What is set aside when a request starts: nothing, what such requests generated, or all
    it may generate."""
    quantile: float = Field(default=0.9, gt=0, lt=1)
    """Of the lengths that such requests generated, where `reserve` is expected."""
    watermark: Share = 0.05
    """The share of all blocks that stays free for what already runs."""


class QueueLimitsSpec(SpecModel):
    """Bounds of everybody who waits for a deployment, whatever their class."""

    requests: int | None = Field(default=None, ge=0, le=1_000_000, examples=[1024])
    """How many requests may wait; one more is rejected with 503. None: as many as their classes
    allow together."""
    tokens: int | None = Field(default=None, ge=1, le=10**12, examples=[2_000_000])
    """Prompt tokens of those that wait and tokens they may generate, together; None: no bound."""
    bytes: Size | None = None
    """Size of the bodies of those that wait; None: no bound."""
    age: Duration | None = None
    """While the oldest has waited for longer, nobody else may wait; None: no bound."""


class LimitsSpec(SpecModel):
    """Bounds on what waits and runs at once."""

    max_active_per_replica: int | None = Field(default=None, ge=1, le=1_000_000, examples=[32])
    """Answers that one replica works on at once, where a request with `n` counts `n` times;
    None: as many as its engine takes."""
    tpot: Duration | None = None
    """Seconds for a token: each replica works on no more at once than nearly all of its answers
    keep this pace, as it was measured. None: whatever the pace."""
    max_prompt_tokens_in_flight: int | None = Field(
        default=None, ge=1, le=10**12, examples=[500_000]
    )
    """Prompt tokens of the requests that one gateway has admitted and that are not over; None:
    no bound."""
    queue: QueueLimitsSpec | None = None
    """Bounds of everybody who waits, whatever their class."""
    kv: KVLimitsSpec | None = None
    """How much KV cache is set aside for what a request may still generate."""


class TenantLimitsSpec(SpecModel):
    """One tenant's share and bound."""

    weight: float = Field(default=1, gt=0, le=1_000_000)
    """Its share where several tenants wait: one of weight 2 gets twice the tokens of one of 1."""
    tokens_per_minute: int | None = Field(default=None, ge=1, le=10**12, examples=[200_000])
    """Prompt and output tokens together, that one gateway takes of it; None: no bound."""
    max_concurrent: int | None = Field(default=None, ge=1, le=1_000_000, examples=[16])
    """Its requests that wait or run at once, at one gateway; None: no bound."""


class DegradeSpec(SpecModel):
    """Lesser answers instead of none; each says so in the header `x-pilothouse-degraded`."""

    when: Condition
    """When answers become lesser ones."""
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000, examples=[256])
    """How long they then may be; None: as long as ever."""
    fallback: Name | None = None
    """The deployment that then answers, where it has room; None: no other."""

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self.max_tokens is None and self.fallback is None:
            raise ValueError("changes nothing: give max_tokens, or a fallback deployment, or both")
        return self


class OverloadSpec(SpecModel):
    """What gives way first when there is too much."""

    shed: tuple[Name, ...] = ()
    """Request classes, first to go first."""
    degrade: DegradeSpec | None = Field(
        default=None, examples=[{"when": "queue_age > 1s", "max_tokens": 256}]
    )
    """Lesser answers instead of none."""
    retry_budget: Share | None = None
    """How many may be tries of what was tried before, for each that comes for the first time:
    requests that clients send again and that would have to wait, and those that the gateway sends
    to another replica. None: no bound."""


class RoutingSpec(SpecModel):
    """Which replica takes a request."""

    policy: RoutingPolicyName = "two_choices"
    """A routing policy that the gateways have installed."""
    settings: dict[str, Any] = Field(default_factory=dict, examples=[{}])
    """Of that policy."""
    affinity_header: HeaderName | None = None
    """Requests with the same value of this header go to the same replica while it has room;
    None: no header is looked at."""

    @model_validator(mode="after")
    def _can_be_made(self) -> Self:
        """What comes with Pilothouse can be checked here; a plugin's is by its gateways."""
        if self.policy in BUILTIN_POLICIES:
            terms = RoutingTerms(policy=self.policy, settings=self.settings)
            create_routing(terms, Random(0), create_builtin)
        return self


class SlowClientsSpec(SpecModel):
    """Streams whose clients take them more slowly than engines produce them."""

    buffer: Size = Field(default=256 * 2**10, ge=4 * 2**10, le=2**30)
    """How much of one answer may wait for its client. An engine that cannot be asked to wait, an
    attached endpoint, is held up where twice as much does."""
    then: SlowClientAction = SlowClientAction.PAUSE
    """What happens beyond it: the engine waits until half of it is left, or the request is ended;
    the client gets what was produced, and is told."""
    pause_at_most: Duration = 15.0
    """All pauses of a request together; it is ended then, since it keeps its slot and its KV
    cache while it is paused. Keep it below 40s: a replica whose slots are all paused takes no
    step, and for longer than that it counts as hung."""


class AdmissionPolicySpec(SpecModel):
    """Classes in matching order, and limits."""

    classes: Annotated[tuple[RequestClassSpec, ...], Field(min_length=1)]
    """Request classes; the first whose `match` holds takes the request."""
    limits: LimitsSpec = LimitsSpec()
    """Bounds on what waits and runs at once."""
    tenants: dict[Name, TenantLimitsSpec] = Field(default_factory=dict)
    """Shares and bounds by tenant."""
    overload: OverloadSpec | None = None
    """What gives way first when there is too much."""
    routing: RoutingSpec | None = None
    """Which replica takes a request; None: the lesser used of two."""
    slow_clients: SlowClientsSpec | None = None
    """What happens to streams whose clients read slowly; None: beyond 256KiB
    of an answer its engine waits for up to 15s."""

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
        shed = self.overload.shed if self.overload else ()
        twice = sorted({name for name in shed if shed.count(name) > 1})
        if twice:
            raise ValueError(f"overload.shed names {', '.join(twice)} twice")
        strangers = [name for name in shed if name not in names]
        if strangers:
            raise ValueError(
                f"overload.shed names {', '.join(strangers)}, which is no class of this policy; "
                f"classes: {', '.join(sorted(names))}"
            )
        return self
