"""Which routing policies a gateway can be given, and what becomes of wrong ones."""

import dataclasses
from typing import Any

import pytest

from dataplane import hooks
from dataplane.gateway.routing_plugins import RoutingPlugins
from dataplane.plugins import PluginError, PluginGroup, load_plugins
from dataplane.policy import DeploymentPolicy, RoutingTerms, Snapshot
from tests.dataplane.gateway.running_gateway import deployment


def routed(policy: str, name: str = "chat", **settings: Any) -> DeploymentPolicy:
    plain = deployment("a", name=name)
    terms = RoutingTerms(policy=policy, settings=settings)
    return dataclasses.replace(plain, policy=dataclasses.replace(plain.policy, routing=terms))


def load(routing: RoutingPlugins, *deployments: DeploymentPolicy) -> None:
    snapshot = Snapshot(version=1, deployments=deployments)
    names = routing.needed(snapshot)
    routing.load(snapshot, load_plugins(PluginGroup.GATEWAY, names, hooks, hooks.PROJECT))


def test_a_policy_keeps_what_it_learned_until_its_own_terms_change() -> None:
    routing = RoutingPlugins()
    load(routing, routed("prefix"), routed("least_outstanding", "batch"))
    before = routing.of("chat")
    load(routing, routed("prefix"))
    assert routing.of("chat") is before
    load(routing, routed("prefix", output_token_cost=1.0))
    assert routing.of("chat") is not before
    assert routing.of("batch").policy.name == "two_choices", "a deployment that is gone"


def test_a_policy_that_no_plugin_has_refuses_the_snapshot_and_changes_nothing() -> None:
    routing = RoutingPlugins()
    load(routing, routed("prefix"))
    with pytest.raises(PluginError, match="no plugin 'nearest' in group"):
        load(routing, routed("nearest"))
    with pytest.raises(PluginError, match="no plugin makes the routing policy 'simulator'"):
        load(routing, routed("simulator"))
    with pytest.raises(PluginError) as error:
        load(routing, routed("prefix", prefill_rate=3))
    assert str(error.value).startswith(
        "policy policy@3 of deployment chat: routing policy prefix has no setting 'prefill_rate'"
    )
    assert routing.of("chat").policy.name == "prefix"
