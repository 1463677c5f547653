"""The routing of each deployment of a snapshot.

A policy lives as long as its terms do: a snapshot that changes something else leaves what it has
learned alone.
"""

from dataclasses import replace
from random import Random

import pluggy
import structlog

from dataplane import hooks
from dataplane.plugins import PluginError, PluginGroup, load_plugins
from dataplane.policy import DeploymentPolicy, RoutingTerms, Snapshot
from dataplane.routing import builtin
from dataplane.routing.routing import Routing
from dataplane.routing.terms import create_builtin, create_routing

_log = structlog.get_logger(__name__)


class RoutingPlugins:
    """Of one gateway."""

    def __init__(self) -> None:
        # Of its own: gateways that draw alike would run to the same replicas.
        self._random = Random()
        self._by_lane: dict[str, Routing] = {}
        self._loaded: tuple[frozenset[str], pluggy.PluginManager] | None = None

    def load(self, snapshot: Snapshot) -> None:
        """Make what it asks for. A policy that cannot be made costs its deployment no request:
        what it had before goes on, or else the default stands in, and decisions say so."""
        manager = self._load_plugins({each.policy.routing.policy for each in snapshot.lanes})
        self._by_lane = {each.lane: self._create(each, manager) for each in snapshot.lanes}

    def of(self, lane: str) -> Routing:
        """That of a deployment, or of a candidate beside it; the default where it is gone."""
        found = self._by_lane.get(lane)
        return found or create_routing(RoutingTerms(), self._random, create_builtin)

    def _load_plugins(self, named: set[str]) -> pluggy.PluginManager:
        """With those that can be loaded of the `named` ones, and the built-in ones. Where all could
        be they are kept: to look what is installed takes milliseconds."""
        if self._loaded is not None and self._loaded[0] == named:
            return self._loaded[1]
        plugins, usable = named.difference(builtin.BUILTIN_POLICIES), []
        for name in sorted(plugins):
            try:
                load_plugins(PluginGroup.GATEWAY, [name], hooks, hooks.PROJECT)
            except PluginError as error:
                _log.error("routing plugin cannot be loaded", plugin=name, error=str(error))
            else:
                usable.append(name)
        manager = load_plugins(PluginGroup.GATEWAY, usable, hooks, hooks.PROJECT)
        manager.register(builtin, name="built-in routing")
        is_whole = len(usable) == len(plugins)
        self._loaded = (frozenset(named), manager) if is_whole else None
        return manager

    def _create(self, deployment: DeploymentPolicy, manager: pluggy.PluginManager) -> Routing:
        terms = deployment.policy.routing
        before = self._by_lane.get(deployment.lane)
        if before is not None and before.terms == terms and before.problem is None:
            return before
        try:
            return create_routing(
                terms,
                self._random,
                lambda terms, random: manager.hook.pilothouse_create_router(
                    terms=terms, random=random
                ),
            )
        except ValueError as error:
            return self._stand_in(deployment, before, str(error))

    def _stand_in(self, deployment: DeploymentPolicy, before: Routing | None, why: str) -> Routing:
        found = before or create_routing(RoutingTerms(), self._random, create_builtin)
        revision = deployment.policy.revision
        problem = f"policy {revision}: {why}; {found.policy.name} stands in"
        if before is None or before.problem != problem:
            _log.error("routing stands in", deployment=deployment.lane, why=problem)
        return replace(found, problem=problem)
