"""Alerts for processes that cannot be seen, or that do not do what they are told."""

from controlplane.slo.alert_windows import MINUTE, Severity
from controlplane.slo.prometheus.static_alert import OF_DEPLOYMENT, StaticAlert
from dataplane import names

CONTROL_PLANE_JOB, GATEWAY_JOB = "pilothouse-controlplane", "pilothouse-gateway"
"""As the configuration that is shipped calls them."""
_REPORT_AGE = names.CONTROLPLANE_GATEWAY_REPORT_AGE_SECONDS

CONTROL_PLANE_DOWN = StaticAlert(
    name="PilothouseControlPlaneDown",
    severity=Severity.TICKET,
    expr=f'up{{job="{CONTROL_PLANE_JOB}"}} == 0',
    for_seconds=5 * MINUTE,
    summary="A control plane does not answer",
    description="{{ $labels.instance }} was not scraped for five minutes. Gateways serve on "
    "with the last snapshot; without another control plane, what ends is not replaced.",
    runbook="control-plane-down",
)
NO_CONTROL_PLANE = StaticAlert(
    name="PilothouseNoControlPlane",
    severity=Severity.PAGE,
    expr=f'absent(up{{job="{CONTROL_PLANE_JOB}"}} == 1)',
    for_seconds=5 * MINUTE,
    summary="No control plane answers",
    description="For five minutes Prometheus reached none, or knows of none. Gateways serve on "
    "with the last snapshot, but what ends is not replaced, and alerts are told to nobody.",
    runbook="control-plane-down",
)
SNAPSHOT_NOT_FOLLOWED = StaticAlert(
    name="PilothouseSnapshotNotFollowed",
    severity=Severity.TICKET,
    expr=f"{names.GATEWAY_SNAPSHOT_VERSION} < scalar(max({names.CONTROLPLANE_SNAPSHOT_VERSION}))",
    for_seconds=5 * MINUTE,
    summary="A gateway enforces an older snapshot than there is",
    description="{{ $labels.instance }} has enforced version {{ $value }} for five minutes while "
    "the control plane had newer ones: policies, contracts and replicas are not those in force.",
    runbook="snapshot-not-followed",
)
TELEMETRY_STALE = StaticAlert(
    name="PilothouseTelemetryStale",
    severity=Severity.TICKET,
    # One that is gone for good is forgotten after an hour; one that is scraped is not gone.
    expr=f"{_REPORT_AGE} > 60 < 3600 or "
    f'{_REPORT_AGE} > 60 and on ({names.LABEL_GATEWAY}) up{{job="{GATEWAY_JOB}"}} == 1',
    for_seconds=2 * MINUTE,
    summary="A gateway has not reported for over a minute",
    description="The last report of {{ $labels.gateway }} is {{ $value | humanizeDuration }} "
    "old: what the console shows of it is from then.",
    runbook="records-not-arriving",
)
DIAGNOSIS_STALE = StaticAlert(
    name="PilothouseDiagnosisStale",
    severity=Severity.TICKET,
    expr=f"{names.CONTROLPLANE_DIAGNOSIS_AGE_SECONDS} > 300",
    for_seconds=5 * MINUTE,
    summary="Nobody has looked what is wrong for five minutes",
    description="Rules last looked at {{ $labels.deployment }} {{ $value | humanizeDuration }} "
    "ago.",
    runbook="telemetry-stale",
    page=OF_DEPLOYMENT,
)
OF_PROCESSES = (
    StaticAlert(
        name="PilothouseGatewayDown",
        severity=Severity.PAGE,
        expr=f'up{{job="{GATEWAY_JOB}"}} == 0',
        for_seconds=2 * MINUTE,
        summary="A gateway does not answer",
        description="{{ $labels.instance }} was not scraped for two minutes: callers may get no "
        "answer, and objectives are judged without it.",
        runbook="gateway-down",
    ),
    StaticAlert(
        name="PilothouseNoGateways",
        severity=Severity.PAGE,
        expr=f'absent(up{{job="{GATEWAY_JOB}"}})',
        for_seconds=5 * MINUTE,
        summary="No gateway is known to Prometheus",
        description="Nothing scrapes a gateway, so no objective can be judged and no budget alert "
        "can fire. That is no proof that all is well.",
        runbook="telemetry-missing",
    ),
    CONTROL_PLANE_DOWN,
    NO_CONTROL_PLANE,
    SNAPSHOT_NOT_FOLLOWED,
    TELEMETRY_STALE,
    DIAGNOSIS_STALE,
)
