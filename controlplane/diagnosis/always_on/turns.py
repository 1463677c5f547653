"""Who can be asked, and in which order the rules look."""

from collections.abc import Iterable, Mapping
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
    is_observed_only: bool = False
    """Its page is all that shows whether it lives."""
    is_to_serve: bool = True
    """False: it starts, or is about to end; that nothing listens there is no news."""
    is_lost: bool = False
    """Nobody reaches it: it is asked more often, though it may have no metrics page."""
    bearer: str | None = field(default=None, repr=False)
    """A key to show there."""


def order_deployments(
    deployments: Iterable[str], suspects: frozenset[str], last_looked: Mapping[str, float]
) -> list[str]:
    """Suspects first, then who was not looked at for longest."""
    return sorted(
        deployments, key=lambda name: (name not in suspects, last_looked.get(name, -1.0), name)
    )
