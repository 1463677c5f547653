"""The part of a Scenario that says what goes wrong: one entry a fault, `fault` says which.

Each has a seed of its own that follows from the scenario's and from its place among faults of its
kind, so that a fault of another kind that is added changes none.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from controlplane.specs.faults.clients import RetryStormSpec, SlowClientsSpec
from controlplane.specs.faults.memory import LeakOnCancelSpec, SmallerMemorySpec, WorkspaceSpikeSpec
from controlplane.specs.faults.metrics import (
    LyingMetricsSpec,
    MissingSeriesSpec,
    RenamedSeriesSpec,
    StaleMetricsSpec,
)
from controlplane.specs.faults.placement import (
    DraftDisagreementSpec,
    StickyRoutingSpec,
    TransferLimitSpec,
    WrongPhaseSplitSpec,
)
from controlplane.specs.faults.process import HungReplicaSpec, SlowStartSpec, StalledReplicaSpec
from controlplane.specs.faults.traffic import (
    ClusteredArrivalsSpec,
    LongerOutputsSpec,
    LongPromptsSpec,
    PrefixChangeSpec,
    TenantFloodSpec,
)
from controlplane.specs.kind import nearest
from dataplane.simulation.faults.fault import Fault

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
        _check_names(where, spec, valid)
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


def _check_names(where: str, spec: Any, valid: Mapping[str, Sequence[str]]) -> None:
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
