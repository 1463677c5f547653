"""Who is looked at next, where there are more than can be: a pure choice."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A replica's metrics page."""

    replica_id: str
    deployment: str
    address: str
    """`host:port` of one of our own engines, or the base URL of an attached one."""
    page: str | None = None
    """The URL of the page, where it need not be looked for."""
    bearer: str | None = field(default=None, repr=False)
    """A key to show there."""


_SUSPECT_SHARE = 0.75
"""Of the places: what looks well may be about to change, and always gets some."""


def choose_targets(
    targets: Sequence[Target],
    suspects: frozenset[str],
    last_asked: Mapping[str, float],
    most: int,
) -> list[Target]:
    """At most `most` of them: those of suspect deployments first, in three of four places, then
    the rest; among equals who was not asked for longest, and never asked goes before all."""
    if len(targets) <= most:
        return list(targets)
    waiting = sorted(
        targets, key=lambda each: (last_asked.get(each.replica_id, -1.0), each.replica_id)
    )
    near = [each for each in waiting if each.deployment in suspects]
    far = [each for each in waiting if each.deployment not in suspects]
    num_near = max(round(most * _SUSPECT_SHARE), most - len(far))
    chosen = near[:num_near]
    return [*chosen, *far[: most - len(chosen)]]


def order_deployments(
    deployments: Iterable[str], suspects: frozenset[str], last_looked: Mapping[str, float]
) -> list[str]:
    """Suspects first, then who was not looked at for longest."""
    return sorted(
        deployments, key=lambda name: (name not in suspects, last_looked.get(name, -1.0), name)
    )
