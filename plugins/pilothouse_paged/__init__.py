"""The native engine: paged attention over one block pool, on a CPU or a CUDA GPU.

This module is what a replica host loads; torch is imported only when an engine is made.
`client` is the gateway's half and `process` the control plane's; neither needs torch.
"""

from typing import TYPE_CHECKING

from dataplane.engine import ReplicaSpec
from dataplane.hooks import hookimpl
from pilothouse_paged.settings import ENGINE, parse_settings

if TYPE_CHECKING:
    from dataplane.host.core import EngineCore


@hookimpl
def pilothouse_create_engine_core(spec: ReplicaSpec) -> "EngineCore | None":
    """The engine for `spec`, not yet loaded. Raises ValueError for settings it cannot use."""
    if spec.engine != ENGINE:
        return None
    settings = parse_settings(spec.settings)
    from pilothouse_paged.core import PagedEngineCore

    return PagedEngineCore(spec.artifact, settings)
