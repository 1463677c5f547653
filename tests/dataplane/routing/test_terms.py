from random import Random
from typing import Any

import pytest

from dataplane.policy import RoutingTerms
from dataplane.routing.builtin import BUILTIN_POLICIES
from dataplane.routing.ejection import EjectionTerms
from dataplane.routing.terms import create_builtin, create_routing


def create(policy: str, **settings: Any) -> EjectionTerms:
    terms = RoutingTerms(policy=policy, settings=settings)
    return create_routing(terms, Random(1), create_builtin).ejection


@pytest.mark.parametrize("policy", BUILTIN_POLICIES)
def test_each_built_in_policy_is_made_under_its_name(policy: str) -> None:
    terms = RoutingTerms(policy=policy)
    assert create_routing(terms, Random(1), create_builtin).policy.name == policy


def test_ejection_is_a_setting_of_every_policy_and_none_of_its_own() -> None:
    wanted = EjectionTerms(consecutive_failures=2, eject_seconds=5)
    for policy in BUILTIN_POLICIES:
        assert create(policy, ejection={"consecutive_failures": 2, "eject_seconds": 5}) == wanted
    assert create("two_choices") == EjectionTerms()


@pytest.mark.parametrize(
    ("policy", "settings", "message"),
    [
        ("nearest", {}, "no plugin makes the routing policy 'nearest'. Built in: two_choices, "),
        ("two_choices", {"seed": 1}, "routing policy two_choices has no setting 'seed'. Settings"),
        ("prefix", {"ejection": 5}, "routing setting ejection must be a mapping of settings"),
        ("prefix", {"ejection": {"eject_second": 5}}, "did you mean eject_seconds?"),
        ("prefix", {"ejection": {"first_share": 1.5}}, "first_share is a share, at most 1"),
        ("prefix", {"ejection": {"min_requests": 2.5}}, "min_requests"),
        ("prefix", {"ejection": {"window_seconds": 0}}, "window_seconds must be a number above 0"),
    ],
)
def test_what_cannot_be_used_is_named(policy: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="routing") as error:
        create(policy, **settings)
    assert message in str(error.value)
