"""Whether this control plane evaluates objectives by itself, and whom it tells."""

import re
from dataclasses import dataclass
from pathlib import Path

BUILT_IN_KINDS = ("webhook", "slack")
_FORM = re.compile(r"(?P<name>[a-z0-9][a-z0-9-]{0,62})=(?P<kind>[a-z0-9][a-z0-9_-]*):(?P<file>.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifierPlan:
    """One way to tell people."""

    name: str
    """As it is called in lists and logs: `oncall`."""
    kind: str
    """webhook, slack, or the plugin that makes it."""
    file: Path
    """Where its address stands, which is a secret: it is never in an argument or a log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertingSettings:
    """One control plane's; read once."""

    is_on: bool = True
    evaluate_seconds: float = 30.0
    """Between two evaluations of all promises."""
    notifiers: tuple[NotifierPlan, ...] = ()
    console_url: str = ""
    """Where alerts lead to, as browsers reach the console. Empty: nobody said, and what starts the
    control plane fills in where that listens."""


def parse_plan(text: str) -> NotifierPlan:
    """From `NAME=KIND:FILE`. Raises ValueError."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(
            f"{text!r}: write NAME=KIND:FILE, like oncall=slack:/etc/pilothouse/slack.url; a name "
            "holds lower-case letters, digits and hyphens"
        )
    return NotifierPlan(name=found["name"], kind=found["kind"], file=Path(found["file"]).absolute())
