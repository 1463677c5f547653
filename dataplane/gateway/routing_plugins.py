"""The routing of each deployment of a snapshot: which policies its gateways must have, and theirs.

A policy lives as long as its terms do: a snapshot that changes something else leaves what it has
learned alone.
"""

from collections.abc import Iterable
from random import Random

import pluggy

from dataplane.plugins import PluginError
from dataplane.policy import DeploymentPolicy, RoutingTerms, Snapshot
from dataplane.routing import builtin
from dataplane.routing.routing import Routing
from dataplane.routing.terms import create_builtin, create_routing


class RoutingPlugins:
    """Of one gateway."""

    def __init__(self) -> None:
        # Of its own: gateways that draw alike would run to the same replicas.
        self._random = Random()
        self._by_deployment: dict[str, Routing] = {}

    @staticmethod
    def needed(snapshot: Snapshot) -> Iterable[str]:
        """Plugins that it names, beside those that are built in."""
        named = {deployment.policy.routing.policy for deployment in snapshot.deployments}
        return sorted(named.difference(builtin.BUILTIN_POLICIES))

    def load(self, snapshot: Snapshot, plugins: pluggy.PluginManager) -> None:
        """Make what it asks for. Raises PluginError, and changes nothing."""
        plugins.register(builtin, name="built-in routing")
        self._by_deployment = {
            deployment.name: self._create(deployment, plugins)
            for deployment in snapshot.deployments
        }

    def of(self, deployment: str) -> Routing:
        """That of a deployment; the default where it is gone."""
        found = self._by_deployment.get(deployment)
        return found or create_routing(RoutingTerms(), self._random, create_builtin)

    def _create(self, deployment: DeploymentPolicy, plugins: pluggy.PluginManager) -> Routing:
        terms = deployment.policy.routing
        before = self._by_deployment.get(deployment.name)
        if before is not None and before.terms == terms:
            return before
        try:
            return create_routing(
                terms,
                self._random,
                lambda terms, random: plugins.hook.pilothouse_create_router(
                    terms=terms, random=random
                ),
            )
        except ValueError as error:
            revision = deployment.policy.revision
            raise PluginError(
                f"policy {revision} of deployment {deployment.name}: {error}"
            ) from error
