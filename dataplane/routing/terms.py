"""From the routing terms of a policy revision to what routes by them."""

import dataclasses
from collections.abc import Callable
from random import Random

import msgspec

from dataplane.policy import RoutingTerms
from dataplane.routing.builtin import BUILTIN_POLICIES, pilothouse_create_router
from dataplane.routing.ejection import EjectionTerms
from dataplane.routing.policy import RoutingPolicy
from dataplane.routing.routing import Routing
from dataplane.routing.settings import read_numbers

EJECTION = "ejection"
"""The one setting that is of every policy: when a replica is an outlier, see `EjectionTerms`."""
_SHARES = ("failure_share", "first_share", "max_ejected_share")

CreatePolicy = Callable[[RoutingTerms, Random], RoutingPolicy | None]
"""As the hook `pilothouse_create_router`."""


def create_builtin(terms: RoutingTerms, random: Random) -> RoutingPolicy | None:
    """One of those that come with Pilothouse, or None."""
    policy: RoutingPolicy | None = pilothouse_create_router(terms, random)
    return policy


def create_routing(terms: RoutingTerms, random: Random, create: CreatePolicy) -> Routing:
    """Raises ValueError, which names what is wrong, for settings that cannot be used and for a
    policy that `create` does not make."""
    settings = dict(terms.settings)
    ejection = _read_ejection(settings.pop(EJECTION, {}))
    policy = create(dataclasses.replace(terms, settings=settings), random)
    if policy is None:
        raise ValueError(
            f"no plugin makes the routing policy {terms.policy!r}. "
            f"Built in: {', '.join(BUILTIN_POLICIES)}"
        )
    return Routing(terms=terms, policy=policy, ejection=ejection)


def _read_ejection(settings: object) -> EjectionTerms:
    where = f"routing setting {EJECTION}"
    if not isinstance(settings, dict):
        raise ValueError(f"{where} must be a mapping of settings, not {settings!r}")
    defaults = dataclasses.asdict(EjectionTerms())
    read = read_numbers(where, settings, defaults)
    for name in _SHARES:
        if (read[name] or 0) > 1:
            raise ValueError(f"{where}: {name} is a share, at most 1, not {read[name]!r}")
    try:
        return msgspec.convert(read, EjectionTerms)
    except msgspec.ValidationError as error:
        raise ValueError(f"{where}: {error}") from error
