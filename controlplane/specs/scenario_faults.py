"""The part of a Scenario that says what goes wrong: one entry a fault, `fault` says which.

Each compiles to a fault of `dataplane.simulation.faults`, with a seed of its own that follows
from the scenario's and from its place among faults of its kind, so that a fault of another kind
that is added changes none.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from controlplane.specs.kind import SpecModel, nearest
from controlplane.specs.names import Name
from controlplane.specs.quantity import Duration, Share
from dataplane.simulation.cold_start import StartStage
from dataplane.simulation.faults.clients import RetryStorm, SlowClients
from dataplane.simulation.faults.fault import Fault
from dataplane.simulation.faults.memory import CancelLeak, SmallerMemory, WorkspaceSpike
from dataplane.simulation.faults.metrics import (
    Lie,
    LyingMetrics,
    MissingSeries,
    RenamedSeries,
    StaleMetrics,
)
from dataplane.simulation.faults.placement import (
    DraftDisagreement,
    StickyRouting,
    TransferLimit,
    WrongPhaseSplit,
)
from dataplane.simulation.faults.process import HungReplica, SlowStart, StalledReplica
from dataplane.simulation.faults.traffic import (
    ClusteredArrivals,
    LongerOutputs,
    LongPrompts,
    PrefixChange,
    TenantFlood,
)
from dataplane.simulation.phase_split import Phase

_MOST = 10_000.0
Multiple = Annotated[float, Field(ge=0, le=_MOST)]
Part = Annotated[float, Field(ge=0, le=1)]
Tokens = Annotated[int, Field(ge=0, le=10_000_000)]
SeriesPattern = Annotated[str, Field(min_length=1, max_length=200)]
Names = Annotated[tuple[Name, ...], Field(max_length=1000)]


class _FaultSpec(SpecModel):
    """What every fault has."""

    makes: ClassVar[type[Fault]]

    at: Duration | None = None
    """When it begins; None: it is there from the beginning."""
    lasts: Duration | None = Field(default=None, alias="for")
    """How long it stays; None: to the end."""
    seed: int | None = Field(default=None, ge=0, le=2**63 - 1)
    """Of what it draws; None: it follows from the scenario's."""

    def compile(self, seed: int) -> Fault:
        """The fault, which draws from `seed` where it names none of its own."""
        own = {
            name: getattr(self, name)
            for name in type(self).model_fields
            if name not in ("fault", "at", "lasts", "seed")
        }
        return self.makes(
            at=self.at or 0.0,
            duration=self.lasts,
            seed=seed if self.seed is None else self.seed,
            **own,
        )


class _OfReplica(_FaultSpec):
    replica: Name | None = None
    """Which replica; None: every one."""


class SmallerMemorySpec(_OfReplica):
    """There are fewer KV blocks than planned. A replica that starts with it says so; one that
    runs already loses blocks as they become free."""

    makes = SmallerMemory
    fault: Literal["smaller_memory"]
    intensity: Part = 0.5
    """The share of the blocks that is missing."""


class WorkspaceSpikeSpec(_OfReplica):
    """Blocks are needed for something else for a while. Where not so many are free, the process
    is out of memory and dies."""

    makes = WorkspaceSpike
    fault: Literal["workspace_spike"]
    intensity: Multiple = 0.5
    """The share of the blocks that is needed; above 1 none survives it."""


class LeakOnCancelSpec(_OfReplica):
    """What a cancelled request held is not given back until the process ends."""

    makes = CancelLeak
    fault: Literal["leak_on_cancel"]
    intensity: Part = 1.0
    """The share of cancelled requests that leak."""


class StalledReplicaSpec(_OfReplica):
    """Every step takes longer."""

    makes = StalledReplica
    fault: Literal["stalled_replica"]
    intensity: Multiple = 4.0
    """By how many times longer: 1 doubles it."""


class HungReplicaSpec(_OfReplica):
    """No step ends; the process lives, and answers for its health."""

    makes = HungReplica
    fault: Literal["hung_replica"]
    intensity: Part = 1.0
    """Below 1 it creeps on with the rest of its pace."""


class SlowStartSpec(_OfReplica):
    """A stage of a start takes longer."""

    makes = SlowStart
    fault: Literal["slow_start"]
    intensity: Multiple = 4.0
    """By how many times longer: 1 doubles it."""
    stage: Annotated[StartStage, Field(examples=["load"])] = StartStage.LOAD
    """Which stage: acquire, load, compile or warm_up."""

    @field_validator("stage")
    @classmethod
    def _takes_time(cls, stage: StartStage) -> StartStage:
        if stage is StartStage.READY:
            raise ValueError("ready is no stage but its end; take acquire, load, compile, warm_up")
        return stage


class _OfCalls(_FaultSpec):
    tenants: Names = ()
    """Whose calls; none named: everybody's."""
    classes: Names = ()
    """Calls of which request classes; none named: of all."""
    share: Share = 1.0
    """How many of those calls."""


class LongerOutputsSpec(_OfCalls):
    """Answers get longer, and so does what callers allow."""

    makes = LongerOutputs
    fault: Literal["longer_outputs"]
    intensity: Multiple = 1.0
    """By how many times longer: 1 doubles them."""


class LongPromptsSpec(_OfCalls):
    """Prompts get longer, behind what they share."""

    makes = LongPrompts
    fault: Literal["long_prompts"]
    intensity: Multiple = 1.0
    """How many times `added_tokens`."""
    added_tokens: Tokens = 8000
    """Tokens that are added at intensity 1."""


class PrefixChangeSpec(_OfCalls):
    """Prompts begin with something of their own; what they had in common no longer matches."""

    makes = PrefixChange
    fault: Literal["prefix_change"]
    intensity: Part = 1.0
    """The share of prompts that do."""


class ClusteredArrivalsSpec(_OfCalls):
    """As many calls come, but closer together."""

    makes = ClusteredArrivals
    fault: Literal["clustered_arrivals"]
    intensity: Part = 1.0
    """How close: at 1 all calls of a period come at once."""
    period: Duration = 10.0
    """From one cluster to the next."""


class TenantFloodSpec(_OfCalls):
    """Some call more often."""

    makes = TenantFlood
    fault: Literal["tenant_flood"]
    intensity: Multiple = 9.0
    """How many more calls for each: 9 makes ten of one."""


class RetryStormSpec(_OfCalls):
    """Clients leave when nothing comes, and try again and again without a growing pause."""

    makes = RetryStorm
    fault: Literal["retry_storm"]
    intensity: Part = 1.0
    """The share of clients that do."""
    patience: Duration | None = 10.0
    """How long they wait for the first token; None: as long as they did."""
    max_retries: int = Field(default=8, ge=0, le=1000)
    """How often they try again."""
    backoff: Duration = 0.1
    """The pause between two tries."""


class SlowClientsSpec(_OfCalls):
    """Clients read their answers slowly, or stop."""

    makes = SlowClients
    fault: Literal["slow_clients"]
    intensity: Part = 1.0
    """The share of clients that do."""
    tokens_per_second: float = Field(default=4.0, gt=0, le=1_000_000)
    """How fast they read."""
    stops_after: Tokens | None = None
    """Tokens after which they read nothing more, and stay connected; None: they read on."""
    buffered_tokens: Tokens = 64
    """What the connection holds that was not read."""


class StickyRoutingSpec(_OfReplica):
    """One replica gets most: the others seem to be held by somebody else."""

    makes = StickyRouting
    fault: Literal["sticky_routing"]
    intensity: Part = 0.8
    """The share of the others' slots that seems to be held; at 1 they get nothing."""
    replica: Name | None = None
    """Which replica gets most; None: the first."""


class DraftDisagreementSpec(_OfReplica):
    """Drafts are accepted less often. Needs `cost.speculation`."""

    makes = DraftDisagreement
    fault: Literal["draft_disagreement"]
    intensity: Part = 1.0
    """The share of the acceptance that is gone; at 1 no draft is accepted."""


class TransferLimitSpec(_FaultSpec):
    """The links that weights come over, and KV between phases, carry less. Needs
    `cold_start.weights` or `phases`."""

    makes = TransferLimit
    fault: Literal["transfer_limit"]
    intensity: Multiple = 4.0
    """At 1 it carries half, at 4 a fifth."""


class WrongPhaseSplitSpec(_FaultSpec):
    """Replicas of one phase do the work of the other; one of each is left. Needs `phases`."""

    makes = WrongPhaseSplit
    fault: Literal["wrong_phase_split"]
    intensity: Part = 0.5
    """The share of the replicas that change."""
    short: Phase | None = Field(default=None, examples=["prefill"])
    """Which phase loses them, prefill or decode; None: the one that has more."""


class _OfMetrics(_OfReplica):
    series: Annotated[tuple[SeriesPattern, ...], Field(min_length=1, max_length=1000)] = ("*",)
    """Which names, as exported, such as `*cache_usage*`; all where nothing is said."""


class StaleMetricsSpec(_OfMetrics):
    """Scrapes get what was said before."""

    makes = StaleMetrics
    fault: Literal["stale_metrics"]
    intensity: Part = 1.0
    """The share of scrapes that do; at 1 the text is frozen."""


class MissingSeriesSpec(_OfMetrics):
    """Series are not exported."""

    makes = MissingSeries
    fault: Literal["missing_series"]
    intensity: Part = 1.0
    """The share of the names that is missing."""


class RenamedSeriesSpec(_OfMetrics):
    """Series have another name: another release, a relabelling."""

    makes = RenamedSeries
    fault: Literal["renamed_series"]
    intensity: Part = 1.0
    """The share of the names that is renamed."""
    old: str = Field(default="", max_length=200)
    """The part of the name that is replaced; empty: `_v2` is added."""
    new: str = Field(default="", max_length=200)
    """What stands there instead."""


class LyingMetricsSpec(_OfMetrics):
    """Values are wrong."""

    makes = LyingMetrics
    fault: Literal["lying_metrics"]
    intensity: Multiple = 1.0
    """How wrong; `how` says of what."""
    how: Lie = Lie.FACTOR
    """factor: gauges are 1 + intensity times too high. percent: ratios say percent. stuck: the last
    value again. reset: counters fall to 0."""


FaultSpec = Annotated[
    SmallerMemorySpec
    | WorkspaceSpikeSpec
    | LeakOnCancelSpec
    | StalledReplicaSpec
    | HungReplicaSpec
    | SlowStartSpec
    | LongerOutputsSpec
    | LongPromptsSpec
    | PrefixChangeSpec
    | ClusteredArrivalsSpec
    | TenantFloodSpec
    | RetryStormSpec
    | SlowClientsSpec
    | StickyRoutingSpec
    | DraftDisagreementSpec
    | TransferLimitSpec
    | WrongPhaseSplitSpec
    | StaleMetricsSpec
    | MissingSeriesSpec
    | RenamedSeriesSpec
    | LyingMetricsSpec,
    Field(discriminator="fault"),
]


def check_faults(
    specs: Iterable[Any],
    replicas: Iterable[str],
    tenants: Iterable[str],
    classes: Iterable[str],
    *,
    is_speculative: bool,
    has_link: bool,
    has_phases: bool,
) -> None:
    """Raises ValueError for a fault of something that the scenario does not have."""
    valid = {"replicas": list(replicas), "tenants": list(tenants), "classes": list(classes)}
    for position, spec in enumerate(specs):
        where = f"faults[{position}]"
        named = {
            "replicas": [getattr(spec, "replica", None)],
            "tenants": getattr(spec, "tenants", ()),
            "classes": getattr(spec, "classes", ()),
        }
        for what, names in named.items():
            strangers = [name for name in names if name is not None and name not in valid[what]]
            if strangers:
                near = nearest(strangers[0], valid[what])
                hint = f"; did you mean {near}?" if near else "."
                known = ", ".join(valid[what][:20]) or "none"
                raise ValueError(
                    f"{where} names {strangers[0]}, which is none of the {what}{hint} "
                    f"There are: {known}"
                )
        if isinstance(spec, DraftDisagreementSpec) and not is_speculative:
            raise ValueError(
                f"{where} is about drafts, and no replica makes any; add replicas.cost.speculation"
            )
        if isinstance(spec, TransferLimitSpec) and not (has_link or has_phases):
            raise ValueError(
                f"{where} is about a link, and nothing goes over one; add "
                f"replicas.cold_start.weights or replicas.phases"
            )
        if isinstance(spec, WrongPhaseSplitSpec) and not has_phases:
            raise ValueError(
                f"{where} is about phases, and each replica does both; add replicas.phases"
            )


def compile_faults(specs: Iterable[Any], seed: int) -> tuple[Fault, ...]:
    """The faults of a scenario with this seed, in its order."""
    numbers: Counter[str] = Counter()
    faults = []
    for spec in specs:
        numbers[spec.fault] += 1
        faults.append(spec.compile(_derived(seed, spec.fault, numbers[spec.fault])))
    return tuple(faults)


def _derived(seed: int, *names: str | int) -> int:
    text = "/".join(map(str, (seed, "faults", *names)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")
