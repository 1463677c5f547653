"""One message to people about the alerts of one deployment."""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from controlplane.slo.alert import Alert
from controlplane.slo.alert_json import alert_as_json

_TIMES = ("started_at", "ended_at")


class NoticeKind(StrEnum):
    """What it is about."""

    FIRING = "firing"
    REPEAT = "repeat"
    """Nothing is new: it goes on for hours, or a page of it ended and others go on."""
    RESOLVED = "resolved"
    """Nothing fires any more of what was told."""
    TEST = "test"
    """Somebody asked whether it arrives: nothing is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One of them."""

    kind: NoticeKind
    deployment: str | None
    """None: the installation itself."""
    at_unix_ns: int
    firing: tuple[Alert, ...]
    """Pages first. All that is told of the deployment, not only what is new."""
    ended: tuple[Alert, ...] = ()
    """Those that were told as firing, and fire no more."""
    num_held_back: int = 0
    """Tickets that nobody is told of, because a page of the deployment fires."""
    console_url: str = ""

    @property
    def headline(self) -> str:
        """One line."""
        about = self.deployment or "the installation"
        if self.kind is NoticeKind.TEST:
            return f"Test: alerts of {about} arrive here. Nothing is wrong."
        if self.kind is NoticeKind.RESOLVED:
            return f"Resolved: {about}"
        worst = self.firing[0].subject.severity.value if self.firing else "ticket"
        still = "still " if self.kind is NoticeKind.REPEAT else ""
        num = len(self.firing)
        return f"{worst.capitalize()}: {about}, {num} alert{'s' if num != 1 else ''} {still}firing"

    def as_json(self) -> dict[str, Any]:
        """The body that a webhook is posted; documented in ops/runbooks/notifier-silent.md."""
        return {
            "version": 1,
            "kind": self.kind.value,
            "deployment": self.deployment,
            "headline": self.headline,
            "sent_at": _time(self.at_unix_ns),
            "firing": [_alert(each) for each in self.firing],
            "ended": [_alert(each) for each in self.ended],
            "num_held_back": self.num_held_back,
            "console_url": self.console_url,
        }


def _alert(alert: Alert) -> dict[str, Any]:
    told = alert_as_json(alert)
    for name in _TIMES:
        unix_ns = told.pop(f"{name}_unix_ns")
        told[name] = None if unix_ns is None else _time(unix_ns)
    return told


def _time(unix_ns: int) -> str:
    """RFC 3339."""
    return datetime.fromtimestamp(unix_ns // 10**9, UTC).isoformat().replace("+00:00", "Z")
