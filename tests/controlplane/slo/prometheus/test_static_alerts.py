"""Alerts that no objective covers, as a real evaluator of PromQL fires them."""

import re
from pathlib import Path

import pytest

from controlplane.runbooks import runbook_names
from controlplane.slo.prometheus.rules import render
from controlplane.slo.prometheus.static_alerts import STATIC_ALERTS, StaticAlert, static_groups
from dataplane import names
from tests.controlplane.slo.prometheus.promtool import LINKS, check, firing_alerts

EACH = pytest.mark.parametrize("alert", STATIC_ALERTS, ids=lambda alert: alert.name)
_GATEWAY = 'job="pilothouse-gateway",instance="a:8701"'
_ALWAYS = {"PilothouseWatchdog"}
_WELL = {
    f"up{{{_GATEWAY}}}": "1x160",
    'up{job="pilothouse-controlplane",instance="a:8700"}': "1x160",
    'pilothouse_controlplane_gateway_report_age_seconds{gateway="gateway-0"}': "2x160",
    'pilothouse_controlplane_diagnosis_age_seconds{deployment="chat"}': "5x160",
    f"pilothouse_gateway_oldest_queued_seconds{{{_GATEWAY}}}": "3x160",
    f"pilothouse_gateway_records_lost_total{{{_GATEWAY}}}": "0x160",
    'pilothouse_replica_preemptions_total{replica="chat-1"}': "0+1x160",
    'pilothouse_replica_kv_blocks_referenced{replica="chat-1"}': "60x160",
    'pilothouse_replica_kv_blocks{replica="chat-1"}': "100x160",
    'pilothouse_replica_leaked_requests_total{replica="chat-1"}': "3x160",
    "pilothouse_controlplane_operator_failures_total": "0x160",
    "pilothouse_controlplane_request_data_refusals_total": "0x160",
}
_TROUBLES = {
    "PilothouseGatewayDown": (f"up{{{_GATEWAY}}}", "1x80 0x80"),
    "PilothouseControlPlaneDown": (
        'up{job="pilothouse-controlplane",instance="a:8700"}',
        "1x80 0x80",
    ),
    "PilothouseNoGateways": (f"up{{{_GATEWAY}}}", "1x40 stale _x119"),
    "PilothouseTelemetryStale": (
        'pilothouse_controlplane_gateway_report_age_seconds{gateway="gateway-0"}',
        "2x80 10+15x80",
    ),
    "PilothouseDiagnosisStale": (
        'pilothouse_controlplane_diagnosis_age_seconds{deployment="chat"}',
        "5x40 10+15x120",
    ),
    "PilothouseQueueOld": (
        f"pilothouse_gateway_oldest_queued_seconds{{{_GATEWAY}}}",
        "3x40 50+15x120",
    ),
    "PilothousePreempting": (
        'pilothouse_replica_preemptions_total{replica="chat-1"}',
        "0+0x40 0+5x120",
    ),
    "PilothouseKVNearLimit": (
        'pilothouse_replica_kv_blocks_referenced{replica="chat-1"}',
        "60x40 99x120",
    ),
    "PilothouseReleaseLeaked": (
        'pilothouse_replica_leaked_requests_total{replica="chat-1"}',
        "3x150 4x10",
    ),
    "PilothouseReplicaCrashLoop": (
        'pilothouse_controlplane_deployment_held{deployment="chat"}',
        "_x80 1x80",
    ),
    "PilothouseRecordsLost": (
        f"pilothouse_gateway_records_lost_total{{{_GATEWAY}}}",
        "0x150 7x10",
    ),
    "PilothouseOperatorFailing": (
        "pilothouse_controlplane_operator_failures_total",
        "0x80 0+1x80",
    ),
    "PilothouseRequestDataRefused": (
        "pilothouse_controlplane_request_data_refusals_total",
        "0x150 2x10",
    ),
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
    series, values = _TROUBLES[name]
    found = firing_alerts(rules, ["static.yml"], {**_WELL, series: values}, at="40m")
    assert found == _ALWAYS | {name}


def test_every_alert_was_tried() -> None:
    assert {alert.name for alert in STATIC_ALERTS} == _ALWAYS | set(_TROUBLES)


@EACH
def test_its_runbook_is_there(alert: StaticAlert) -> None:
    assert alert.runbook in runbook_names()


@EACH
def test_every_metric_that_it_asks_for_is_one_of_ours(alert: StaticAlert) -> None:
    ours = {value for name, value in vars(names).items() if name.isupper()}
    for metric in re.findall(r"pilothouse_[a-z_]+", alert.expr):
        assert metric in ours
