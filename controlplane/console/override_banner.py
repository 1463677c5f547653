"""The overrides in force, for the banner of every page: templates are handed no request.

Read from memory, where the operator keeps them: also a page that says that the database is away
shows what is enforced. Plain ASGI, because event streams pass through it as well.
"""

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from controlplane.access.current import current_principal
from controlplane.api.override_views import effect_of
from controlplane.console.formatting import clock_time
from controlplane.operator.observed import ObservedState
from controlplane.store.overrides import StoredOverride
from dataplane.clock import wall_clock

_current: ContextVar[Sequence[StoredOverride]] = ContextVar("current_overrides", default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class BannerLine:
    """One override as the banner says it."""

    override_id: str
    deployment: str
    effect: str
    reason: str
    created_by: str
    until_unix_ns: int
    until_text: str


def banner_lines() -> list[BannerLine]:
    """For whoever is calling: nothing for strangers, and for who sees one tenant alone."""
    principal = current_principal.get()
    if principal is None or principal.tenant is not None:
        return []
    now = wall_clock()
    return [
        BannerLine(
            override_id=each.override_id,
            deployment=each.deployment,
            effect=effect_of(each),
            reason=each.reason,
            created_by=each.created_by,
            until_unix_ns=each.until_unix_ns,
            until_text=clock_time(each.until_unix_ns, now),
        )
        for each in _current.get()
    ]


class KnowOverrides:
    """Reads them once for each HTTP call."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection."""
        if scope["type"] == "http":
            observed: ObservedState | None = getattr(scope["app"].state, "observed", None)
            _current.set(() if observed is None else observed.overrides())
        await self._app(scope, receive, send)
