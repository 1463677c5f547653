"""Alerts about alerting itself: Prometheus evaluates, Alertmanager delivers, or nobody hears.

What is wrong with the way out cannot be told by that way. Such an alert is for who looks at
Prometheus or Grafana and for a second Alertmanager; where nothing is delivered it holds the
watchdog back (`alertmanager.py`), so that the service outside calls.
"""

from controlplane.slo.alert_windows import MINUTE, Severity
from controlplane.slo.prometheus.static_alert import StaticAlert
from dataplane import names

ALERTMANAGER_JOB = "alertmanager"
"""As the configuration that is shipped calls it."""
_RUNBOOK = "alerting-silent"

WATCHDOG = StaticAlert(
    name="PilothouseWatchdog",
    severity=Severity.TICKET,
    labels={names.LABEL_SEVERITY: "none"},
    expr="vector(1)",
    for_seconds=0,
    summary="Alerting works",
    description="It always fires. Send it to a service outside that calls you when it stops: a "
    "dead man's switch. Silence from here means that Prometheus or Alertmanager is gone.",
    runbook=_RUNBOOK,
)
"""Always there, so that its absence says that nobody would be told of anything else."""
NOTIFICATIONS_FAILING = StaticAlert(
    name="PilothouseNotificationsFailing",
    severity=Severity.TICKET,
    # Five times: a control plane that is started anew is away for some deliveries of the watchdog.
    expr="sum by (instance, integration) "
    "(increase(alertmanager_notifications_failed_total[15m])) > 4.5",
    for_seconds=0,
    summary="Alertmanager cannot deliver",
    description="{{ $labels.instance }} failed {{ $value | humanize }} times in 15 minutes by "
    "{{ $labels.integration }}: who should hear of alerts may not. Its log says why.",
    runbook=_RUNBOOK,
)
OF_ALERTING = (
    WATCHDOG,
    StaticAlert(
        name="PilothouseRulesFailing",
        severity=Severity.TICKET,
        expr="sum by (instance, rule_group) "
        "(increase(prometheus_rule_evaluation_failures_total[5m])) > 0",
        for_seconds=5 * MINUTE,
        summary="Prometheus cannot evaluate rules",
        description="{{ $value | humanize }} evaluations of {{ $labels.rule_group }} failed in "
        "five minutes: alerts of that group may be silent.",
        runbook=_RUNBOOK,
    ),
    StaticAlert(
        name="PilothouseNoAlertmanager",
        severity=Severity.TICKET,
        expr="prometheus_notifications_alertmanagers_discovered == 0",
        for_seconds=5 * MINUTE,
        summary="Prometheus knows no Alertmanager",
        description="{{ $labels.instance }} has nowhere to send an alert.",
        runbook=_RUNBOOK,
    ),
    StaticAlert(
        name="PilothouseAlertsDropped",
        severity=Severity.TICKET,
        expr="increase(prometheus_notifications_errors_total[5m]) > 0",
        for_seconds=5 * MINUTE,
        summary="Prometheus does not reach an Alertmanager",
        description="{{ $labels.alertmanager }} did not take {{ $value | humanize }} alerts in "
        "five minutes.",
        runbook=_RUNBOOK,
    ),
    StaticAlert(
        name="PilothouseAlertmanagerDown",
        severity=Severity.TICKET,
        expr=f'up{{job="{ALERTMANAGER_JOB}"}} == 0',
        for_seconds=5 * MINUTE,
        summary="An Alertmanager does not answer",
        description="{{ $labels.instance }} was not scraped for five minutes.",
        runbook=_RUNBOOK,
    ),
    NOTIFICATIONS_FAILING,
)
