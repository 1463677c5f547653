"""Faults of the memory for KV."""

from typing import Literal

from controlplane.specs.faults.fault import Multiple, Part, ReplicaFaultFields
from dataplane.simulation.faults.memory import CancelLeak, SmallerMemory, WorkspaceSpike


class SmallerMemorySpec(ReplicaFaultFields):
    """There are fewer KV blocks than planned. A replica that starts with it says so; one that
    runs already loses blocks as they become free."""

    makes = SmallerMemory
    fault: Literal["smaller_memory"]
    intensity: Part = 0.5
    """The share of the blocks that is missing."""


class WorkspaceSpikeSpec(ReplicaFaultFields):
    """Blocks are needed for something else for a while. Where not so many are free, the process
    is out of memory and dies."""

    makes = WorkspaceSpike
    fault: Literal["workspace_spike"]
    intensity: Multiple = 0.5
    """The share of the blocks that is needed; above 1 none survives it."""


class LeakOnCancelSpec(ReplicaFaultFields):
    """What a cancelled request held is not given back until the process ends."""

    makes = CancelLeak
    fault: Literal["leak_on_cancel"]
    intensity: Part = 1.0
    """The share of cancelled requests that leak."""
