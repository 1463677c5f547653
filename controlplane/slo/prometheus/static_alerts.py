"""Alerts for what no objective covers: whoever cannot be seen, what is never given back, and
Pilothouse itself. The same for every installation; each names its runbook.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.slo.alert_windows import MINUTE, Severity
from controlplane.slo.prometheus.links import Links
from controlplane.slo.prometheus.rules import AlertRule, RuleGroup
from dataplane import names

_INTERVAL_SECONDS = 30
CONTROL_PLANE_JOB, GATEWAY_JOB = "pilothouse-controlplane", "pilothouse-gateway"
"""As the configuration that is shipped calls them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticAlert:
    """One of them."""

    name: str
    severity: Severity
    expr: str
    for_seconds: int
    summary: str
    """Short, without figures."""
    description: str
    """With them, in Prometheus' templates."""
    runbook: str
    labels: Mapping[str, str] | None = None

    def rule(self, links: Links) -> AlertRule:
        """As Prometheus takes it."""
        return AlertRule(
            alert=self.name,
            expr=self.expr,
            for_seconds=self.for_seconds,
            labels={names.LABEL_SEVERITY: self.severity.value, **(self.labels or {})},
            annotations={
                "summary": self.summary,
                "description": self.description,
                "runbook_url": links.runbook(self.runbook),
                "dashboard_url": links.console_url,
            },
        )


WATCHDOG = StaticAlert(
    name="PilothouseWatchdog",
    severity=Severity.TICKET,
    labels={names.LABEL_SEVERITY: "none"},
    expr="vector(1)",
    for_seconds=0,
    summary="Alerting works",
    description="It always fires. Send it to a service outside that calls you when it stops: a "
    "dead man's switch. Silence from here means that Prometheus or Alertmanager is gone.",
    runbook="alerting-silent",
)
"""Always there, so that its absence says that nobody would be told of anything else."""

_SEEN = (
    StaticAlert(
        name="PilothouseGatewayDown",
        severity=Severity.PAGE,
        expr=f'up{{job="{GATEWAY_JOB}"}} == 0',
        for_seconds=2 * MINUTE,
        summary="A gateway does not answer",
        description="{{ $labels.instance }} was not scraped for two minutes: callers may get no "
        "answer, and objectives are judged without it.",
        runbook="gateway-restart",
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
    StaticAlert(
        name="PilothouseControlPlaneDown",
        severity=Severity.TICKET,
        expr=f'up{{job="{CONTROL_PLANE_JOB}"}} == 0',
        for_seconds=5 * MINUTE,
        summary="A control plane does not answer",
        description="{{ $labels.instance }} was not scraped for five minutes. Gateways serve on "
        "with the last snapshot; replicas that end are not replaced.",
        runbook="records-not-arriving",
    ),
    StaticAlert(
        name="PilothouseTelemetryStale",
        severity=Severity.TICKET,
        expr=f"{names.CONTROLPLANE_GATEWAY_REPORT_AGE_SECONDS} > 60 < 3600",
        for_seconds=2 * MINUTE,
        summary="A gateway has not reported for over a minute",
        description="The last report of {{ $labels.gateway }} is {{ $value | humanizeDuration }} "
        "old: what the console shows of it is from then.",
        runbook="records-not-arriving",
    ),
    StaticAlert(
        name="PilothouseDiagnosisStale",
        severity=Severity.TICKET,
        expr=f"{names.CONTROLPLANE_DIAGNOSIS_AGE_SECONDS} > 300",
        for_seconds=5 * MINUTE,
        summary="Nobody has looked what is wrong for five minutes",
        description="Rules last looked at {{ $labels.deployment }} {{ $value | humanizeDuration "
        "}} ago.",
        runbook="telemetry-stale",
    ),
)
_SERVED = (
    StaticAlert(
        name="PilothouseQueueOld",
        severity=Severity.TICKET,
        expr=f"{names.GATEWAY_OLDEST_QUEUED_SECONDS} > 60",
        for_seconds=5 * MINUTE,
        summary="A request has waited for over a minute",
        description="At {{ $labels.instance }} the oldest request in the queue has waited for "
        "{{ $value | humanizeDuration }}.",
        runbook="queue-overload",
    ),
    StaticAlert(
        name="PilothousePreempting",
        severity=Severity.TICKET,
        expr=f"60 * rate({names.REPLICA_PREEMPTIONS_TOTAL}[5m]) > 6",
        for_seconds=10 * MINUTE,
        summary="A replica computes again and again what it had",
        description="{{ $labels.replica }} preempts {{ $value | humanize }} sequences a minute.",
        runbook="cache-thrash",
    ),
    StaticAlert(
        name="PilothouseKVNearLimit",
        severity=Severity.TICKET,
        expr=f"{names.REPLICA_KV_BLOCKS_REFERENCED} / {names.REPLICA_KV_BLOCKS} > 0.95",
        for_seconds=15 * MINUTE,
        summary="A replica's KV cache is as good as full",
        description="Requests reference {{ $value | humanizePercentage }} of the blocks of "
        "{{ $labels.replica }}: the next longer answers preempt others.",
        runbook="cache-grown-contexts",
    ),
    StaticAlert(
        name="PilothouseReleaseLeaked",
        severity=Severity.TICKET,
        expr=f"increase({names.REPLICA_LEAKED_REQUESTS_TOTAL}[15m]) > 0",
        for_seconds=0,
        summary="A request was not released after its end",
        description="{{ $labels.replica }} still holds what {{ $value | humanize }} requests had "
        "that ended long ago.",
        runbook="request-not-released",
    ),
    StaticAlert(
        name="PilothouseReplicaCrashLoop",
        severity=Severity.PAGE,
        expr=f"{names.CONTROLPLANE_DEPLOYMENT_HELD} == 1",
        for_seconds=MINUTE,
        summary="A deployment lacks replicas, and none is started for now",
        description="The operator starts no replica of {{ $labels.deployment }} for now: the last "
        "ones failed again and again, or none can be started. Its page says which.",
        runbook="replica-crash-loop",
    ),
)
_OWN = (
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
        "brought about.",
        runbook="snapshot-not-followed",
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
)
STATIC_ALERTS = (WATCHDOG, *_SEEN, *_SERVED, *_OWN)


def static_groups(links: Links) -> tuple[RuleGroup, ...]:
    """All of them."""
    return (
        RuleGroup(
            name="pilothouse-static",
            interval_seconds=_INTERVAL_SECONDS,
            rules=[alert.rule(links) for alert in STATIC_ALERTS],
        ),
    )
