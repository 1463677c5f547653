"""Silences and maintenance windows as API, console and terminal show them. Pure conversions."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # whoever only reads answers (the command line) does without the rest
    from controlplane.slo.silences import Silence, SilenceScope

PLANNED, IN_FORCE, OVER = "planned", "in_force", "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceView:
    """One of either kind."""

    silence_id: str
    kind: str
    """silence or maintenance."""
    what: str
    """Which alerts, in words."""
    deployment: str | None
    """None, here and below: any."""
    request_class: str | None
    objective: str | None
    severity: str | None
    """page or ticket."""
    reason: str
    created_by: str
    created_at_unix_ns: int
    from_unix_ns: int
    until_unix_ns: int
    state: str
    """planned, in_force or over."""
    over_at_unix_ns: int
    """When it is over, or was."""
    ended_by: str | None
    """Who ended it early; None of one that did or will at its time."""
    end_reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceList:
    """The newest first."""

    as_of_unix_ns: int
    silences: list[SilenceView]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveredPromise:
    """One promise whose alerts would be kept back, and what the last hour says of it."""

    deployment: str
    request_class: str
    objective: str
    state: str
    """ok, breaching, insufficient_data or no_data."""
    fires: list[str]
    """Grades that fire now and would tell nobody."""
    num_judged: int
    num_bad: int
    """Both of the last hour."""
    burn_rate: float | None
    """Of the last hour; None: nothing was judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SilencePlan:
    """What one would keep back, before it is made."""

    silence: SilenceView
    promises: list[CoveredPromise]
    covers_other_alerts: bool
    """Alerts of no objective as well, such as that a deployment has no data."""
    overlapping: list[str]
    """Ids of others that are in force at some time of it, for some of the same alerts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SilencedView:
    """Why nobody is told of an alert."""

    silence_id: str
    kind: str
    until_unix_ns: int
    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceSpent:
    """What was spent of a budget in planned maintenance: part of what was spent, and not less."""

    seconds: int
    """Of the budget's period, that were maintenance; whole minutes."""
    num_bad: int
    """Requests that spent budget in it."""
    share_of_spent: float | None
    """Of all that spent budget; None: none did."""


def scope_words(scope: "SilenceScope") -> str:
    """`chat, class interactive, objective ttft, tickets only`."""
    parts = [scope.deployment or "every deployment and the installation itself"]
    if scope.request_class is not None:
        parts.append(f"class {scope.request_class}")
    if scope.objective is not None:
        parts.append(f"objective {scope.objective}")
    if scope.severity is not None:
        parts.append(f"{scope.severity.value}s only")
    return ", ".join(parts)


def view_silence(silence: "Silence", now_unix_ns: int) -> SilenceView:
    """As of one moment."""
    scope = silence.scope
    return SilenceView(
        silence_id=silence.silence_id,
        kind=silence.kind.value,
        what=scope_words(scope),
        deployment=scope.deployment,
        request_class=scope.request_class,
        objective=scope.objective,
        severity=None if scope.severity is None else scope.severity.value,
        reason=silence.reason,
        created_by=silence.created_by,
        created_at_unix_ns=silence.created_at_unix_ns,
        from_unix_ns=silence.from_unix_ns,
        until_unix_ns=silence.until_unix_ns,
        state=_state(silence, now_unix_ns),
        over_at_unix_ns=silence.over_at_unix_ns,
        ended_by=silence.ended_by,
        end_reason=silence.end_reason,
    )


def view_silenced(silence: "Silence") -> SilencedView:
    """For whoever shows what it keeps back."""
    return SilencedView(
        silence_id=silence.silence_id,
        kind=silence.kind.value,
        until_unix_ns=silence.over_at_unix_ns,
        by=silence.created_by,
        reason=silence.reason,
    )


def _state(silence: "Silence", now_unix_ns: int) -> str:
    if silence.is_over(now_unix_ns):
        return OVER
    return IN_FORCE if silence.is_in_force(now_unix_ns) else PLANNED
