"""A deployment that is routed in a way of its own, and a routing policy that a plugin makes."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from dataplane.hooks import hookimpl
from dataplane.policy import DeploymentPolicy, RoutingTerms
from dataplane.routing.candidate import Candidate
from dataplane.routing.policy import Pick
from dataplane.routing.request import RoutedRequest
from tests.dataplane.gateway.running_gateway import deployment

LAST = "last"


def routed(
    *addresses: str,
    policy: str = "two_choices",
    affinity_header: str | None = None,
    settings: dict[str, Any] | None = None,
    **fields: Any,
) -> DeploymentPolicy:
    plain = deployment(*addresses, **fields)
    terms = RoutingTerms(policy=policy, settings=settings or {}, affinity_header=affinity_header)
    return dataclasses.replace(plain, policy=dataclasses.replace(plain.policy, routing=terms))


class LastReplica:
    """Takes the last of all by id, and needs no prefix for it."""

    name = LAST
    wants_prefixes = False

    def choose(
        self, request: RoutedRequest, candidates: Sequence[Candidate], wants_reason: bool
    ) -> Pick:
        chosen = max(candidates, key=lambda each: each.replica_id)
        return Pick(chosen, [(each, -ord(each.replica_id[-1])) for each in candidates], "the last")


@hookimpl
def pilothouse_create_router(terms: RoutingTerms, random: Random) -> LastReplica | None:
    return LastReplica() if terms.policy == LAST else None


def describe_plugin(directory: Path) -> None:
    """What an installed distribution with this policy would leave in `directory`."""
    info = directory / "last_router-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: last-router\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[pilothouse.gateway]\n{LAST} = {__name__}\n", encoding="utf-8"
    )
