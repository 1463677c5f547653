"""The notifiers that come with Pilothouse, through the same door as those of plugins."""

from collections.abc import Callable
from pathlib import Path

from controlplane.hooks import Notifier, hookimpl
from controlplane.slo.alerting_settings import BUILT_IN_KINDS
from controlplane.slo.notices.slack import Slack
from controlplane.slo.notices.webhook import Webhook

_MAKE: dict[str, Callable[[Path], Notifier]] = dict(
    zip(BUILT_IN_KINDS, (Webhook, Slack), strict=True)
)


@hookimpl
def pilothouse_create_notifier(kind: str, file: Path) -> Notifier | None:
    """See `controlplane.hooks`."""
    made = _MAKE.get(kind)
    return None if made is None else made(file)
