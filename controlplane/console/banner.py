"""What is in force for everybody, for the banners of every page: templates are handed no request.

Overrides, and silences that cover everything: while one lasts nobody is told of any trouble.
Read from memory, where the operator keeps them: also a page that says that the database is away
shows what is in force. Plain ASGI, because event streams pass through it as well.
"""

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from controlplane.access.current import current_principal
from controlplane.api.override_views import effect_of
from controlplane.api.silence_views import scope_words
from controlplane.console.formatting import clock_time
from controlplane.operator.observed import ObservedState
from controlplane.slo.silences import Silence
from controlplane.store.overrides import StoredOverride
from dataplane.clock import wall_clock

_overrides: ContextVar[Sequence[StoredOverride]] = ContextVar("current_overrides", default=())
_silences: ContextVar[Sequence[Silence]] = ContextVar("current_silences", default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class BannerLine:
    """One of them as its banner says it."""

    kind: str
    """override, silence or maintenance."""
    subject: str
    """The deployment, or which alerts."""
    effect: str
    reason: str
    created_by: str
    until_unix_ns: int
    until_text: str


def override_lines() -> list[BannerLine]:
    """For whoever is calling: nothing for strangers, and for who sees one tenant alone."""
    return [
        _line(each, "override", each.deployment or "every deployment", effect_of(each))
        for each in (_overrides.get() if _sees_all() else ())
    ]


def silence_lines() -> list[BannerLine]:
    """The same, of silences and maintenance that cover everything."""
    return [
        _line(each, each.kind.value, scope_words(each.scope), "nobody is told of alerts")
        for each in (_silences.get() if _sees_all() else ())
    ]


def _sees_all() -> bool:
    principal = current_principal.get()
    return principal is not None and principal.tenant is None


def _line(each: StoredOverride | Silence, kind: str, subject: str, effect: str) -> BannerLine:
    return BannerLine(
        kind=kind,
        subject=subject,
        effect=effect,
        reason=each.reason,
        created_by=each.created_by,
        until_unix_ns=each.until_unix_ns,
        until_text=clock_time(each.until_unix_ns, wall_clock()),
    )


class KnowWhatIsInForce:
    """Reads them once for each HTTP call."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection."""
        if scope["type"] == "http":
            observed: ObservedState | None = getattr(scope["app"].state, "observed", None)
            _overrides.set(() if observed is None else observed.overrides())
            silences = () if observed is None else observed.silences()
            _silences.set([each for each in silences if each.scope.is_everything])
        await self._app(scope, receive, send)
