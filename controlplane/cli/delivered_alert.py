"""A marked alert, sent the way that every alert of Prometheus goes: by Alertmanager to the control
plane. Three steps, each told as it is done; the first that fails ends the command with its remedy.
"""

import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from controlplane.cli.client import get_json
from controlplane.cli.exit_codes import ExitCode
from controlplane.cli.failures import CallError
from controlplane.cli.terminal import say
from controlplane.slo.prometheus.alertmanager import SELF_TEST
from controlplane.slo.prometheus.alerts_of_alerting import WATCHDOG

_TIMEOUT_SECONDS = 10.0
_LOOK_SECONDS = 0.5
_RUNBOOK = "the runbook alerting-silent says what to look at (`pilothouse runbook alerting-silent`)"


def deliver_test_alert(alertmanager: str, url: str, wait_seconds: float) -> None:
    """Raises CallError where it gets stuck. `wait_seconds` bounds each of two waits."""
    _check_watchdog(alertmanager)
    marked = f"self-test-{secrets.token_hex(4)}"
    began = datetime.now(UTC)
    until = began + timedelta(seconds=2 * wait_seconds)
    _post(alertmanager, marked, began, until)
    try:
        heard = _wait(
            lambda: _find(url, marked),
            wait_seconds,
            f"{alertmanager} took the test alert, and the control plane at {url} has not heard of "
            f"it for {wait_seconds:g} s: Alertmanager's log says why, and its configuration where "
            f"it delivers (`pilothouse slo render --common alertmanager` makes one); {_RUNBOOK}",
        )
        say(
            f"Alertmanager to the control plane: {marked} was heard after {_since(began)}, as "
            f"incident {heard['incident_id']}"
        )
    finally:
        ended = datetime.now(UTC)
        _post(alertmanager, marked, began, ended)
    _wait(
        lambda: _find(url, marked) is None,
        wait_seconds,
        f"the control plane at {url} has not heard within {wait_seconds:g} s that {marked} ended: "
        f"set send_resolved at Alertmanager's receiver; {_RUNBOOK}",
    )
    say(f"its end was heard after {_since(ended)}")


def _check_watchdog(alertmanager: str) -> None:
    """That Prometheus' alerts come to Alertmanager: the one that always fires is there."""
    path = "/api/v2/alerts?filter=" + quote(f'alertname="{WATCHDOG.name}"')
    if not _call("GET", alertmanager, path):
        raise CallError(
            f"{WATCHDOG.name} is not at {alertmanager}, though it always fires: Prometheus does "
            "not reach this Alertmanager, or does not evaluate the rules of `pilothouse slo render "
            f"--common static`; {_RUNBOOK}",
            ExitCode.FAILED,
        )
    say(f"Prometheus to Alertmanager: {WATCHDOG.name} is there")


def _post(alertmanager: str, marked: str, began: datetime, until: datetime) -> None:
    alert = {
        "labels": {"alertname": SELF_TEST, "severity": "ticket", "instance": marked},
        "annotations": {
            "summary": "Somebody tries whether alerts arrive",
            "description": f"{marked} was sent by `pilothouse slo test-alert` and ends by itself.",
        },
        "startsAt": began.isoformat(),
        "endsAt": until.isoformat(),
    }
    _call("POST", alertmanager, "/api/v2/alerts", json=[alert])


def _find(url: str, marked: str) -> dict[str, Any] | None:
    firing: list[dict[str, Any]] = get_json(url, "/api/v1/alerts")["alerts"]
    return next((each for each in firing if each["instance"] == marked), None)


def _wait(found: Callable[[], Any], seconds: float, otherwise: str) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := found()):
        if time.monotonic() > deadline:
            raise CallError(otherwise, ExitCode.FAILED)
        time.sleep(_LOOK_SECONDS)
    return value


def _since(began: datetime) -> str:
    return f"{(datetime.now(UTC) - began).total_seconds():.1f} s"


def _call(method: str, alertmanager: str, path: str, **arguments: Any) -> Any:
    import httpx

    address = alertmanager.rstrip("/") + path
    try:
        response = httpx.request(method, address, timeout=_TIMEOUT_SECONDS, **arguments)
        response.raise_for_status()
        return response.json() if response.content else None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise CallError(
            f"no Alertmanager answers at {alertmanager} ({error}): give the address of its API, "
            "such as http://127.0.0.1:9093",
            ExitCode.UNREACHABLE,
        ) from error
