"""The simulator: an engine that schedules as the native one does, and waits where it computes.

Scheduler, KV blocks, prefix cache, preemption and the life of a request are real; what a step
takes is told by a cost model, in real time, and answers are random words of the model's
vocabulary. It needs no torch and no weights: of the Model it reads the tokenizer. This module is
what a replica host loads; `client` is the gateway's half and `process` the control plane's.
"""

from typing import TYPE_CHECKING

from dataplane.engine import ReplicaSpec
from dataplane.hooks import hookimpl
from pilothouse_simulator.settings import ENGINE, parse_settings

if TYPE_CHECKING:
    from dataplane.host.core import EngineCore


@hookimpl
def pilothouse_acquire_artifact(spec: ReplicaSpec) -> None:
    """Wait as long as fetching the weights is to take."""
    if spec.engine != ENGINE:
        return
    from pilothouse_simulator.machine import find_machine
    from pilothouse_simulator.pace import Pace, RealWaiting

    settings = parse_settings(spec.settings)
    pace = Pace(RealWaiting(), settings.time_scale)
    pace.wait(find_machine(settings, spec.replica_id).start_seconds.acquire)


@hookimpl
def pilothouse_create_engine_core(spec: ReplicaSpec) -> "EngineCore | None":
    """The engine for `spec`, not yet loaded. Raises ValueError for settings it cannot use."""
    if spec.engine != ENGINE:
        return None
    settings = parse_settings(spec.settings)
    from pilothouse_simulator.core import SimulatorCore
    from pilothouse_simulator.pace import RealWaiting

    return SimulatorCore(spec.artifact, settings, RealWaiting(), spec.replica_id)
