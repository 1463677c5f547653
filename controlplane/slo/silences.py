"""Silences and maintenance windows: alerts that tell nobody for a time, and why. Pure.

Either keeps notifications back and nothing else: the alert fires, its incident is open and the
budget is spent as it would be, and all three say until when they are silenced and by whom. A
silence begins at once, for a trouble that somebody looks after. A maintenance window is planned
ahead; its time is marked in charts, and what was spent of a budget in it is told apart, but never
taken out of it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from controlplane.slo.alert import AlertSubject
from controlplane.slo.alert_windows import Severity

NEVER_SILENCED = frozenset({"PilothouseWatchdog"})
"""Alerts that must be heard all the time: that they stop is what tells of trouble."""


class SilenceKind(StrEnum):
    """What it is for."""

    SILENCE = "silence"
    MAINTENANCE = "maintenance"


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceScope:
    """Which alerts; None: any. An alert that has no class is in no scope that names one."""

    deployment: str | None = None
    """None: every deployment, and the installation itself."""
    request_class: str | None = None
    objective: str | None = None
    """A signal, or `together`."""
    severity: Severity | None = None

    @property
    def is_everything(self) -> bool:
        """Of whatever: every deployment, the installation itself, each promise. It may still be of
        one severity alone."""
        return self.deployment is self.request_class is self.objective is None

    def covers(self, subject: AlertSubject) -> bool:
        """Whether an alert about `subject` is one of them."""
        return (
            subject.name not in NEVER_SILENCED
            and self.severity in (None, subject.severity)
            and self.is_about(subject.deployment, subject.request_class, subject.objective)
        )

    def is_about(
        self, deployment: str | None, request_class: str | None, objective: str | None
    ) -> bool:
        """The same of whatever its alerts are called: of a promise."""
        return (
            self.deployment in (None, deployment)
            and self.request_class in (None, request_class)
            and self.objective in (None, objective)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """One of either kind: planned, in force or over."""

    silence_id: str
    kind: SilenceKind
    scope: SilenceScope
    reason: str
    created_by: str
    created_at_unix_ns: int
    from_unix_ns: int
    until_unix_ns: int
    ended_at_unix_ns: int | None = None
    """When somebody ended it early; before its beginning where it was called off."""
    ended_by: str | None = None
    end_reason: str | None = None

    @property
    def over_at_unix_ns(self) -> int:
        """When it ended, or will."""
        return self.until_unix_ns if self.ended_at_unix_ns is None else self.ended_at_unix_ns

    def is_in_force(self, at_unix_ns: int) -> bool:
        """At that moment, whatever became of it later."""
        return self.from_unix_ns <= at_unix_ns < self.over_at_unix_ns

    def is_over(self, at_unix_ns: int) -> bool:
        """It will not be in force again."""
        return at_unix_ns >= self.over_at_unix_ns


def find_silence(
    silences: Iterable[Silence], subject: AlertSubject, now_unix_ns: int
) -> Silence | None:
    """The one that keeps an alert back for longest; None: people are told of it."""
    found = [
        each for each in silences if each.is_in_force(now_unix_ns) and each.scope.covers(subject)
    ]
    return max(found, key=lambda each: (each.over_at_unix_ns, each.silence_id), default=None)


def is_silenced(silences: Iterable[Silence], subject: AlertSubject, now_unix_ns: int) -> bool:
    """Whether nobody is to be told of an alert about `subject` now."""
    return find_silence(silences, subject, now_unix_ns) is not None
