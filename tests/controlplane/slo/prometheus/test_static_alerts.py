"""Alerts that no objective covers, as a real evaluator of PromQL fires them."""

import re
from pathlib import Path

import pytest

from controlplane.runbooks import runbook_names
from controlplane.slo.prometheus.rules import render
from controlplane.slo.prometheus.static_alert import StaticAlert
from controlplane.slo.prometheus.static_alerts import STATIC_ALERTS, static_groups
from dataplane import names
from tests.controlplane.slo.prometheus.promtool import LINKS, check, firing_alerts

EACH = pytest.mark.parametrize("alert", STATIC_ALERTS, ids=lambda alert: alert.name)
_GATEWAY = 'job="pilothouse-gateway",instance="a:8701"'
_CONTROL_PLANE = 'job="pilothouse-controlplane",instance="a:8700"'
_REPLICA = 'job="pilothouse-replica",instance="a:9",replica="chat-1",deployment="chat"'
_PROMETHEUS = 'job="prometheus",instance="a:9090"'
_ALERTMANAGER = 'job="alertmanager",instance="a:9093"'
_ALWAYS = {"PilothouseWatchdog"}


def _of_gateway(name: str) -> str:
    return f"{name}{{{_GATEWAY}}}"


def _of_control_plane(name: str, labels: str = "") -> str:
    return f"{name}{{{_CONTROL_PLANE}{labels}}}"


def _of_replica(name: str) -> str:
    return f"{name}{{{_REPLICA}}}"


_OF_CHAT = ',deployment="chat"'
_UP = _of_gateway("up")
_PLANE_UP = _of_control_plane("up")
_OTHER_PLANE_UP = 'up{job="pilothouse-controlplane",instance="b:8700"}'
_ALERTMANAGER_UP = f"up{{{_ALERTMANAGER}}}"
_REPORT_AGE = _of_control_plane(
    names.CONTROLPLANE_GATEWAY_REPORT_AGE_SECONDS, ',gateway="gateway-0"'
)
_LOOKED = _of_control_plane(names.CONTROLPLANE_DIAGNOSIS_AGE_SECONDS, _OF_CHAT)
_ENFORCED = _of_gateway(names.GATEWAY_SNAPSHOT_VERSION)
_DESIRED = _of_control_plane(names.CONTROLPLANE_SNAPSHOT_VERSION)
_WAITED = _of_gateway(names.GATEWAY_OLDEST_QUEUED_SECONDS)
_SPOOLED = _of_gateway(names.GATEWAY_RECORDS_SPOOLED)
_LOST = _of_gateway(names.GATEWAY_RECORDS_LOST_TOTAL)
_PREEMPTED = _of_replica(names.REPLICA_PREEMPTIONS_TOTAL)
_REFERENCED = _of_replica(names.REPLICA_KV_BLOCKS_REFERENCED)
_LEAKED = _of_replica(names.REPLICA_LEAKED_REQUESTS_TOTAL)
_FAILED = _of_control_plane(names.CONTROLPLANE_DEPLOYMENT_FAILURES, _OF_CHAT)
_HELD = _of_control_plane(names.CONTROLPLANE_DEPLOYMENT_HELD, _OF_CHAT)
_STRAYS = _of_control_plane(names.CONTROLPLANE_STRAY_PROCESSES, ',kind="zombie"')
_PASSES_FAILED = _of_control_plane(names.CONTROLPLANE_OPERATOR_FAILURES)
_REFUSALS = _of_control_plane(names.CONTROLPLANE_REQUEST_DATA_REFUSALS_TOTAL)
_KEPT_TOO_LONG = _of_control_plane(names.CONTROLPLANE_RETENTION_FAILURES_TOTAL)
_RULES_FAILED = f'prometheus_rule_evaluation_failures_total{{{_PROMETHEUS},rule_group="x"}}'
_KNOWN = f"prometheus_notifications_alertmanagers_discovered{{{_PROMETHEUS}}}"
_NOT_TAKEN = f'prometheus_notifications_errors_total{{{_PROMETHEUS},alertmanager="http://a:9093"}}'
_NOT_DELIVERED = f'alertmanager_notifications_failed_total{{{_ALERTMANAGER},integration="webhook"}}'
_EVALUATED = _of_control_plane(names.CONTROLPLANE_SLO_EVALUATION_AGE_SECONDS)
_DUE = _of_control_plane(names.CONTROLPLANE_NOTICES_DUE, ',notifier="oncall"')
_WELL = {
    _UP: "1x160",
    _PLANE_UP: "1x160",
    _ALERTMANAGER_UP: "1x160",
    _REPORT_AGE: "2x160",
    _LOOKED: "5x160",
    _ENFORCED: "7x160",
    _DESIRED: "7x160",
    _WAITED: "3x160",
    # Busy: at no scrape is the spool empty, and again and again it gets shorter.
    _SPOOLED: " ".join("3+1x5" for _ in range(26)),
    _LOST: "0x160",
    _PREEMPTED: "0+1x160",
    _REFERENCED: "60x160",
    _of_replica(names.REPLICA_KV_BLOCKS): "100x160",
    _LEAKED: "3x160",
    _STRAYS: "0x160",
    _PASSES_FAILED: "0x160",
    _REFUSALS: "0x160",
    _KEPT_TOO_LONG: "0x160",
    _RULES_FAILED: "0x160",
    _KNOWN: "1x160",
    _NOT_TAKEN: "0x160",
    _NOT_DELIVERED: "0x160",
    _EVALUATED: "20x160",
    _DUE: "0x160",
}
_TROUBLES = {
    "PilothouseGatewayDown": {_UP: "1x80 0x80"},
    "PilothouseControlPlaneDown": {_PLANE_UP: "1x80 0x80", _OTHER_PLANE_UP: "1x160"},
    "PilothouseNoGateways": {_UP: "1x40 stale _x119"},
    "PilothouseNoControlPlane": {_PLANE_UP: "1x40 stale _x119"},
    "PilothouseSnapshotNotFollowed": {_DESIRED: "7x120 8x40"},
    "PilothouseTelemetryStale": {_REPORT_AGE: "2x80 10+15x80"},
    "PilothouseDiagnosisStale": {_LOOKED: "5x40 10+15x120"},
    "PilothouseQueueOld": {_WAITED: "3x40 50+15x120"},
    "PilothousePreempting": {_PREEMPTED: "0+0x40 0+5x120"},
    "PilothouseKVNearLimit": {_REFERENCED: "60x40 99x120"},
    "PilothouseReleaseLeaked": {_LEAKED: "3x150 4x10"},
    # Each start takes two minutes, in which nothing is held.
    "PilothouseReplicaCrashLoop": {
        _FAILED: "_x100 1x8 2x8 3x8 4x40",
        _HELD: "_x116 1x1 stale _x6 1x1 stale _x6 1x2 stale _x40",
    },
    "PilothouseStrayProcess": {_STRAYS: "0x120 1x40"},
    "PilothouseDeploymentHeld": {_HELD: "_x80 1x80"},
    "PilothouseRecordsLost": {_LOST: "0x150 7x10"},
    "PilothouseRecordsWaiting": {_SPOOLED: "0x120 1+1x40"},
    "PilothouseOperatorFailing": {_PASSES_FAILED: "0x80 0+1x80"},
    "PilothouseRequestDataRefused": {_REFUSALS: "0x150 2x10"},
    "PilothouseRetentionFailing": {_KEPT_TOO_LONG: "0x150 2x10"},
    "PilothouseRulesFailing": {_RULES_FAILED: "0x120 0+1x40"},
    "PilothouseNoAlertmanager": {_KNOWN: "1x120 0x40"},
    "PilothouseAlertsDropped": {_NOT_TAKEN: "0x120 0+1x40"},
    "PilothouseAlertmanagerDown": {_ALERTMANAGER_UP: "1x80 0x80"},
    "PilothouseEvaluationStale": {_EVALUATED: "20x60 20+15x100"},
    "PilothouseNotifierSilent": {_DUE: "0x100 1x60"},
    "PilothouseNotificationsFailing": {_NOT_DELIVERED: "0x120 0+1x5 5x34"},
}
_PASSING = {
    "a gateway that is started anew": {_UP: "1x154 0x6"},
    "a snapshot that is followed within moments": {_DESIRED: "7x156 8x4", _ENFORCED: "7x160"},
    "a control plane that is gone is no snapshot of nobody": {
        _DESIRED: "7x100 stale _x59",
        _ENFORCED: "6x160",
    },
    "two failures may be chance": {_FAILED: "_x80 1x40 2x40", _HELD: "_x120 1x1 stale _x38"},
    "an operator that waits between two starts": {_HELD: "_x150 1x10", _FAILED: "_x140 2x20"},
    "a process that is ended within some looks": {_STRAYS: "0x157 2x3"},
    "a loop that was overcome": {_FAILED: "_x80 5x40 stale _x39"},
    "an empty cache has no share that is full": {
        _REFERENCED: "0x160",
        _of_replica(names.REPLICA_KV_BLOCKS): "0x160",
    },
    "an answer that long ago was not released": {_LEAKED: "3x20 4x140"},
    "one try that failed": {_KEPT_TOO_LONG: "0x150 1x10"},
    "a control plane that is away while it is upgraded": {
        _PLANE_UP: "1x142 0x18",
        _NOT_DELIVERED: "0x142 0x3 1x4 2x4 3x4 4x3",
    },
    "a webhook that is away for some minutes": {_DUE: "0x130 2x30"},
    "records that waited while the control plane was started anew": {_SPOOLED: "0x150 1+9x10"},
}


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    (tmp_path / "static.yml").write_text(render(static_groups(LINKS), ["Made for a test."]))
    return tmp_path


def test_they_are_what_prometheus_takes(rules: Path) -> None:
    check(rules, ["static.yml"])


def test_where_all_is_well_the_watchdog_alone_fires(rules: Path) -> None:
    assert firing_alerts(rules, ["static.yml"], _WELL, at="40m") == _ALWAYS


@pytest.mark.parametrize("name", sorted(_TROUBLES))
def test_each_trouble_fires_its_own_alert_and_no_other(rules: Path, name: str) -> None:
    found = firing_alerts(rules, ["static.yml"], {**_WELL, **_TROUBLES[name]}, at="40m")
    assert found == _ALWAYS | {name}


@pytest.mark.parametrize("what", sorted(_PASSING))
def test_what_passes_by_itself_calls_nobody(rules: Path, what: str) -> None:
    found = firing_alerts(rules, ["static.yml"], {**_WELL, **_PASSING[what]}, at="40m")
    assert found == _ALWAYS


def test_every_alert_was_tried() -> None:
    assert {alert.name for alert in STATIC_ALERTS} == _ALWAYS | set(_TROUBLES)


def test_the_only_control_plane_that_is_down_is_all_of_them(rules: Path) -> None:
    found = firing_alerts(rules, ["static.yml"], {**_WELL, _PLANE_UP: "1x80 0x80"}, at="40m")
    assert found == _ALWAYS | {"PilothouseControlPlaneDown", "PilothouseNoControlPlane"}


@pytest.mark.parametrize(
    ("scraped_as", "firing"), [("gateway-0", {"PilothouseTelemetryStale"}), ("gateway-1", set())]
)
def test_a_gateway_that_never_reports_is_stale_for_as_long_as_it_is_there(
    rules: Path, scraped_as: str, firing: set[str]
) -> None:
    up = f'up{{{_GATEWAY},gateway="{scraped_as}"}}'
    series = {key: values for key, values in _WELL.items() if key != _UP}
    hours = {**series, up: "1x160", _REPORT_AGE: "7000+15x160"}
    assert firing_alerts(rules, ["static.yml"], hours, at="40m") == _ALWAYS | firing


@EACH
def test_its_runbook_is_there(alert: StaticAlert) -> None:
    assert alert.runbook in runbook_names()


@EACH
def test_every_metric_that_it_asks_for_is_one_of_ours(alert: StaticAlert) -> None:
    ours = {value for name, value in vars(names).items() if name.isupper()}
    for metric in re.findall(r"pilothouse_[a-z_]+", alert.expr):
        assert metric in ours


@EACH
def test_it_leads_to_a_page_of_the_console(alert: StaticAlert) -> None:
    page = re.sub(r"\{\{ \$labels\.(\w+) \}\}", r"{\1}", alert.page)
    assert page in {"", "requests/live", "deployments", "deployments/{deployment}"}
