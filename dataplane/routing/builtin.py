"""The routing policies that come with Pilothouse, made by the same hook as any plugin's."""

from random import Random

from dataplane.hooks import hookimpl
from dataplane.policy import RoutingTerms
from dataplane.routing import least_outstanding, prefix_affinity, two_choices
from dataplane.routing.policy import RoutingPolicy
from dataplane.routing.settings import read_numbers

BUILTIN_POLICIES = (two_choices.NAME, least_outstanding.NAME, prefix_affinity.NAME)


@hookimpl
def pilothouse_create_router(terms: RoutingTerms, random: Random) -> RoutingPolicy | None:
    """Two choices, least outstanding, prefix."""
    match terms.policy:
        case two_choices.NAME:
            read_numbers(f"routing policy {terms.policy}", terms.settings, {})
            return two_choices.TwoChoices(random)
        case least_outstanding.NAME:
            read_numbers(f"routing policy {terms.policy}", terms.settings, {})
            return least_outstanding.LeastOutstanding()
        case prefix_affinity.NAME:
            return prefix_affinity.PrefixAffinity(terms.settings)
    return None
