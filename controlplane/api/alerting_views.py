"""How the control plane's own alerting goes, as API and terminal show it. No secrets: an address
stands in a file, and its name alone is shown."""

from dataclasses import dataclass

_OVERDUE_AFTER_SECONDS, _OVERDUE_AFTER_TIMES = 120.0, 3
"""What an evaluation may be late by: so long, or so many times as long as it is apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifierView:
    """One way to tell people."""

    name: str
    kind: str
    """webhook, slack, or a plugin's."""
    file: str
    """Where its address stands."""
    num_told: int
    """Messages since this control plane started, tests aside."""
    num_failed: int
    """Attempts."""
    num_due: int
    """Messages that are due and could not be told yet."""
    told_at_unix_ns: int | None
    error: str | None
    """Why the last attempt failed; None when it did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertingView:
    """Of one control plane."""

    as_of_unix_ns: int
    is_on: bool
    evaluate_seconds: float
    evaluated_at_unix_ns: int | None
    """None: it was not evaluated yet."""
    pass_seconds: float | None
    """How long the last evaluation took."""
    num_promises: int | None
    num_failed_passes: int
    error: str | None
    """Why the last evaluation failed; None when it did not."""
    num_firing: int | None
    notifiers: list[NotifierView]

    @property
    def evaluated_seconds_ago(self) -> float | None:
        """None: it was not evaluated yet."""
        if self.evaluated_at_unix_ns is None:
            return None
        return max(0.0, (self.as_of_unix_ns - self.evaluated_at_unix_ns) / 1e9)

    @property
    def is_overdue(self) -> bool:
        """An evaluation has begun and does not come to its end: no error tells that."""
        ago = self.evaluated_seconds_ago
        bound = max(_OVERDUE_AFTER_SECONDS, _OVERDUE_AFTER_TIMES * self.evaluate_seconds)
        return self.is_on and ago is not None and ago > bound


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifierAnswer:
    """What became of a test alert."""

    name: str
    kind: str
    has_arrived: bool
    said: str
    """What was answered, or why it did not arrive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedNotifiers:
    """Each notifier's."""

    answers: list[NotifierAnswer]
