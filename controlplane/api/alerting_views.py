"""How the control plane's own alerting goes, as API and terminal show it. No secrets: an address
stands in a file, and its name alone is shown."""

from dataclasses import dataclass


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
