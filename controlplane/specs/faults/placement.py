"""Faults of where work and data are put."""

from typing import Literal

from pydantic import Field

from controlplane.specs.faults.fault import FaultFields, Multiple, Part, ReplicaFaultFields
from controlplane.specs.names import Name
from dataplane.simulation.faults.placement import (
    DraftDisagreement,
    StickyRouting,
    TransferLimit,
    WrongPhaseSplit,
)
from dataplane.simulation.phase_split import Phase


class StickyRoutingSpec(ReplicaFaultFields):
    """One replica gets most: the others seem to be held by somebody else."""

    makes = StickyRouting
    fault: Literal["sticky_routing"]
    intensity: Part = 0.8
    """The share of the others' slots that seems to be held; at 1 they get nothing."""
    replica: Name | None = None
    """Which replica gets most; None: the first."""


class DraftDisagreementSpec(ReplicaFaultFields):
    """Drafts are accepted less often. Needs `cost.speculation`."""

    makes = DraftDisagreement
    fault: Literal["draft_disagreement"]
    intensity: Part = 1.0
    """The share of the acceptance that is gone; at 1 no draft is accepted."""


class TransferLimitSpec(FaultFields):
    """The links that weights come over, and KV between phases, carry less. Needs
    `cold_start.weights` or `phases`."""

    makes = TransferLimit
    fault: Literal["transfer_limit"]
    intensity: Multiple = 4.0
    """At 1 it carries half, at 4 a fifth."""


class WrongPhaseSplitSpec(FaultFields):
    """Replicas of one phase do the work of the other; one of each is left. Needs `phases`."""

    makes = WrongPhaseSplit
    fault: Literal["wrong_phase_split"]
    intensity: Part = 0.5
    """The share of the replicas that change."""
    short: Phase | None = Field(default=None, examples=["prefill"])
    """Which phase loses them, prefill or decode; None: the one that has more."""
