"""Which routing policies a gateway can be given, and what becomes of wrong ones."""

import dataclasses
from typing import Any

import pytest

from dataplane.gateway.routing_plugins import RoutingPlugins
from dataplane.policy import DeploymentPolicy, RoutingTerms, Snapshot
from tests.dataplane.gateway.running_gateway import deployment


def routed(policy: str, name: str = "chat", **settings: Any) -> DeploymentPolicy:
    plain = deployment("a", name=name)
    terms = RoutingTerms(policy=policy, settings=settings)
    return dataclasses.replace(plain, policy=dataclasses.replace(plain.policy, routing=terms))


def load(routing: RoutingPlugins, *deployments: DeploymentPolicy) -> None:
    routing.load(Snapshot(version=1, deployments=deployments))


def test_a_policy_keeps_what_it_learned_until_its_own_terms_change() -> None:
    routing = RoutingPlugins()
    load(routing, routed("prefix"), routed("least_outstanding", "batch"))
    before = routing.of("chat")
    load(routing, routed("prefix"))
    assert routing.of("chat") is before
    load(routing, routed("prefix", output_token_cost=1.0))
    assert routing.of("chat") is not before
    assert routing.of("batch").policy.name == "two_choices", "a deployment that is gone"


@pytest.mark.parametrize(
    ("policy", "settings", "why"),
    [
        ("nearest", {}, "no plugin makes the routing policy 'nearest'"),
        ("simulator", {}, "no plugin makes the routing policy 'simulator'"),
        ("prefix", {"prefill_rate": 3}, "routing policy prefix has no setting 'prefill_rate'"),
    ],
)
def test_a_policy_that_cannot_be_made_costs_its_own_deployment_no_request_and_others_nothing(
    policy: str, settings: dict[str, Any], why: str
) -> None:
    routing = RoutingPlugins()
    load(routing, routed("least_outstanding"))
    wrong = [routed(policy, name, **settings) for name in ("chat", "new")]
    load(routing, *wrong, routed("prefix", "batch"))

    assert routing.of("chat").policy.name == "least_outstanding", "what it had before"
    assert routing.of("new").policy.name == "two_choices"
    assert routing.of("batch").problem is None
    problem = routing.of("new").problem or ""
    assert problem.startswith(f"policy policy@3: {why}")
    assert problem.endswith("; two_choices stands in")

    load(routing, routed("prefix"))
    assert (routing.of("chat").policy.name, routing.of("chat").problem) == ("prefix", None)
