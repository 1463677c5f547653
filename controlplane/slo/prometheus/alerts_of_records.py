"""Alerts for what the control plane does with its databases: config brought about, records kept."""

from controlplane.slo.alert_windows import MINUTE, Severity
from controlplane.slo.prometheus.static_alert import StaticAlert
from dataplane import names

_SPOOLED = names.GATEWAY_RECORDS_SPOOLED

RECORDS_WAITING = StaticAlert(
    name="PilothouseRecordsWaiting",
    severity=Severity.TICKET,
    # Where records are taken the spool gets shorter every few moments, however busy it is.
    expr=f"{_SPOOLED} > 0 and resets({_SPOOLED}[5m]) == 0 and min_over_time({_SPOOLED}[5m]) > 0",
    for_seconds=2 * MINUTE,
    summary="Records of requests do not arrive at the control plane",
    description="{{ $labels.instance }} keeps {{ $value }} records that nobody takes: the control "
    "plane is away or slow, or its database is. Its counts and budgets lag behind.",
    runbook="records-not-arriving",
)
OF_RECORDS = (
    RECORDS_WAITING,
    StaticAlert(
        name="PilothouseRecordsLost",
        severity=Severity.TICKET,
        expr=f"increase({names.GATEWAY_RECORDS_LOST_TOTAL}[15m]) > 0",
        for_seconds=0,
        summary="Records of requests were lost",
        description="{{ $labels.instance }} lost {{ $value | humanize }} records: the counts of "
        "the control plane lack them, those of Prometheus have them.",
        runbook="records-not-arriving",
    ),
    StaticAlert(
        name="PilothouseOperatorFailing",
        severity=Severity.TICKET,
        expr=f"increase({names.CONTROLPLANE_OPERATOR_FAILURES}[10m]) > 3",
        for_seconds=5 * MINUTE,
        summary="The operator's passes end with errors",
        description="{{ $value | humanize }} passes failed in ten minutes: what is desired is not "
        "brought about. The config database is away, or a snapshot cannot be made.",
        runbook="control-plane-down",
    ),
    StaticAlert(
        name="PilothouseRequestDataRefused",
        severity=Severity.TICKET,
        expr=f"increase({names.CONTROLPLANE_REQUEST_DATA_REFUSALS_TOTAL}[15m]) > 0",
        for_seconds=0,
        summary="The request database takes no more",
        description="{{ $value | humanize }} deliveries were refused for want of room; gateways "
        "keep them for a while.",
        runbook="request-database-full",
    ),
    StaticAlert(
        name="PilothouseRetentionFailing",
        severity=Severity.TICKET,
        expr=f"increase({names.CONTROLPLANE_RETENTION_FAILURES_TOTAL}[1h]) > 1.5",
        for_seconds=0,
        summary="Old request data is not removed",
        description="{{ $value | humanize }} tries of the last hour failed: the request database "
        "grows beyond what it may keep.",
        runbook="request-database-full",
    ),
)
