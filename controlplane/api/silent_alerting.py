"""Alerting that is not heard any more, as a trouble of the overview. Pure."""

from collections.abc import Iterable, Iterator

from controlplane.api.alert_views import HeardView
from controlplane.api.trouble import Trouble

FORGOTTEN_AFTER_SECONDS = 7 * 86_400.0
"""Whoever took their Prometheus away did so on purpose."""


def silent_troubles(heard: Iterable[HeardView]) -> Iterator[Trouble]:
    """Where nothing is heard, a page that should come does not: nobody else says so. Of a source
    that was never heard there is nothing to say."""
    for each in heard:
        if each.state != "well" and each.age_seconds < FORGOTTEN_AFTER_SECONDS:
            yield Trouble(
                severity="no_data",
                what=f"{each.what}: alerts of Prometheus may not be told",
                remedy="Follow the runbook alerting-silent.",
            )
