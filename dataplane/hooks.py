"""What a plugin of the data plane can provide: one typed hook each, in one place.

A plugin is a module named by an entry point (see dataplane.plugins for the groups)
that implements some of these with `@hookimpl`. Modules import torch and the like
inside the hook, never at the top.
"""

from random import Random
from typing import TYPE_CHECKING

import pluggy

from dataplane.engine import EngineClient, ReplicaSpec
from dataplane.policy import ReplicaEndpoint, RoutingTerms

if TYPE_CHECKING:
    from dataplane.host.core import EngineCore
    from dataplane.routing.policy import RoutingPolicy

PROJECT = "pilothouse"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec(firstresult=True)
def pilothouse_create_engine_client(endpoint: ReplicaEndpoint) -> EngineClient | None:
    """Gateway: the client for `endpoint`, not yet connected; None when its engine is not yours."""


@hookspec(firstresult=True)
def pilothouse_create_router(terms: RoutingTerms, random: Random) -> "RoutingPolicy | None":
    """Gateway: the routing policy that `terms` names, for one deployment; None when it is not
    yours. `random` is all the chance it may use. Raises ValueError for settings it cannot use."""


@hookspec(firstresult=True)
def pilothouse_create_engine_core(spec: ReplicaSpec) -> "EngineCore | None":
    """Replica host: the engine for `spec`, not yet loaded; None when its engine is not yours."""


@hookspec
def pilothouse_acquire_artifact(spec: ReplicaSpec) -> None:
    """Replica host: what a start takes before the artifact can be loaded, once it was found to be
    there. Raises OSError and ValueError with the remedy."""
