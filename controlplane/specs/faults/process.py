"""Faults of the process of a replica."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from controlplane.specs.faults.fault import Multiple, Part, ReplicaFaultFields
from dataplane.simulation.cold_start import StartStage
from dataplane.simulation.faults.process import HungReplica, SlowStart, StalledReplica


class StalledReplicaSpec(ReplicaFaultFields):
    """Every step takes longer."""

    makes = StalledReplica
    fault: Literal["stalled_replica"]
    intensity: Multiple = 4.0
    """By how many times longer: 1 doubles it."""


class HungReplicaSpec(ReplicaFaultFields):
    """No step ends; the process lives, and answers for its health."""

    makes = HungReplica
    fault: Literal["hung_replica"]
    intensity: Part = 1.0
    """Below 1 it creeps on with the rest of its pace."""


class SlowStartSpec(ReplicaFaultFields):
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
