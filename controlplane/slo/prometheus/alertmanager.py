"""Alertmanager's configuration: who hears of an alert, once, and what says nothing new.

    alert                      goes to                                 after
    PilothouseWatchdog         the control plane, a service outside    at once, every minute
    PilothouseSelfTest         the control plane                       at once
    severity page              the control plane                       10 s, then every minute
    severity ticket            the control plane                       30 s, then every 5 minutes
    anything else              nobody: it is not ours

Alerts about one deployment are one notification. The control plane makes incidents of them and
tells people. Where it cannot be reached nobody would be told, and so the watchdog is held back
then: the service outside misses it and calls.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML

from controlplane.slo.alert import REPEATED_EVERY_SECONDS
from controlplane.slo.alert_windows import Severity, short
from controlplane.slo.prometheus.alerts_of_alerting import NOTIFICATIONS_FAILING, WATCHDOG
from controlplane.slo.prometheus.alerts_of_processes import (
    CONTROL_PLANE_DOWN,
    DIAGNOSIS_STALE,
    NO_CONTROL_PLANE,
    SNAPSHOT_NOT_FOLLOWED,
    TELEMETRY_STALE,
)
from controlplane.slo.prometheus.alerts_of_records import RECORDS_WAITING
from dataplane import names

WEBHOOK_PATH = "/api/v1/alerts/alertmanager"
SELF_TEST = "PilothouseSelfTest"
"""The alert that `pilothouse slo test-alert --alertmanager` sends."""
_OURS = 'alertname=~"Pilothouse.+"'
"""The control plane takes no others."""
_REPEAT = short(REPEATED_EVERY_SECONDS)
_NOBODY, _CONTROL_PLANE, _WATCHDOG = "nobody", "control-plane", "watchdog"
_FOLLOWS_FROM_NO_CONTROL_PLANE = (
    CONTROL_PLANE_DOWN,
    TELEMETRY_STALE,
    SNAPSHOT_NOT_FOLLOWED,
    DIAGNOSIS_STALE,
    RECORDS_WAITING,
    NOTIFICATIONS_FAILING,
    WATCHDOG,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Where Alertmanager delivers. The files are on its own machine, and hold one line."""

    control_plane_url: str
    """As Alertmanager reaches it."""
    credentials_file: str | None = None
    """Holds the key that it shows the control plane; None: it shows none."""
    watchdog_url_file: str | None = None
    """Holds the address of the service outside that calls when the watchdog stops coming; None:
    there is none."""


def alertmanager_config(delivery: Delivery) -> dict[str, Any]:
    """As Alertmanager 0.25 and later read it; 0.26 and later with a service outside."""
    return {
        "route": _route(),
        "inhibit_rules": _inhibit_rules(),
        "receivers": _receivers(delivery),
    }


def render_alertmanager(delivery: Delivery, heading: Sequence[str]) -> str:
    """Its file, the heading as comments."""
    yaml = YAML()
    yaml.width = 1_000_000
    yaml.indent(mapping=2, sequence=4, offset=2)
    stream = io.StringIO()
    yaml.dump(alertmanager_config(delivery), stream)
    return "".join(f"# {line}\n" for line in heading) + stream.getvalue()


def left_out_of(delivery: Delivery) -> list[str]:
    """A sentence for each thing that a whole installation has and this one has not."""
    if delivery.watchdog_url_file is not None:
        return []
    return [
        "no dead man's switch: nobody outside is told when alerting itself is gone; give "
        "--watchdog-url-file"
    ]


def _route() -> dict[str, Any]:
    return {
        "receiver": _NOBODY,
        "group_by": [names.LABEL_DEPLOYMENT],
        "routes": [
            _branch([_named(WATCHDOG.name)], _WATCHDOG, wait="0s", interval="1m", repeat="50s"),
            {
                **_branch([_named(SELF_TEST)], _CONTROL_PLANE, wait="0s", interval="5s"),
                "group_by": ["alertname", "instance"],
            },
            _branch([_OURS, _of(Severity.PAGE)], _CONTROL_PLANE, wait="10s", interval="1m"),
            _branch([_OURS, _of(Severity.TICKET)], _CONTROL_PLANE, wait="30s", interval="5m"),
        ],
    }


def _branch(
    matchers: list[str], receiver: str, *, wait: str, interval: str, repeat: str = _REPEAT
) -> dict[str, Any]:
    return {
        "matchers": matchers,
        "receiver": receiver,
        "group_wait": wait,
        "group_interval": interval,
        "repeat_interval": repeat,
    }


def _inhibit_rules() -> list[dict[str, Any]]:
    follows = "|".join(alert.name for alert in _FOLLOWS_FROM_NO_CONTROL_PLANE)
    return [
        {
            # Of a deployment: two alerts that both are of none would count as equal.
            "source_matchers": [_of(Severity.PAGE), f'{names.LABEL_DEPLOYMENT}=~".+"'],
            "target_matchers": [_of(Severity.TICKET)],
            "equal": [names.LABEL_DEPLOYMENT],
        },
        {
            "source_matchers": [_named(NO_CONTROL_PLANE.name)],
            "target_matchers": [f'alertname=~"{follows}"'],
        },
        {
            "source_matchers": [_named(NOTIFICATIONS_FAILING.name)],
            "target_matchers": [_named(WATCHDOG.name)],
        },
    ]


def _receivers(delivery: Delivery) -> list[dict[str, Any]]:
    outside = (
        []
        if delivery.watchdog_url_file is None
        else [{"url_file": delivery.watchdog_url_file, "send_resolved": False}]
    )
    return [
        {"name": _NOBODY},
        {"name": _CONTROL_PLANE, "webhook_configs": [_webhook(delivery)]},
        {"name": _WATCHDOG, "webhook_configs": [_webhook(delivery), *outside]},
    ]


def _webhook(delivery: Delivery) -> dict[str, Any]:
    webhook: dict[str, Any] = {
        "url": delivery.control_plane_url.rstrip("/") + WEBHOOK_PATH,
        "send_resolved": True,
    }
    if delivery.credentials_file is not None:
        shown = {"type": "Bearer", "credentials_file": delivery.credentials_file}
        webhook["http_config"] = {"authorization": shown}
    return webhook


def _named(name: str) -> str:
    return f'alertname="{name}"'


def _of(severity: Severity) -> str:
    return f'{names.LABEL_SEVERITY}="{severity.value}"'
