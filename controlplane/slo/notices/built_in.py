"""The notifiers that come with Pilothouse, through the same door as those of plugins."""

from collections.abc import Callable
from pathlib import Path

from controlplane.hooks import Notifier, hookimpl
from controlplane.slo.notices.slack import Slack
from controlplane.slo.notices.webhook import Webhook

KINDS: dict[str, Callable[[Path], Notifier]] = {"webhook": Webhook, "slack": Slack}


@hookimpl
def pilothouse_create_notifier(kind: str, file: Path) -> Notifier | None:
    """See `controlplane.hooks`."""
    made = KINDS.get(kind)
    return None if made is None else made(file)
