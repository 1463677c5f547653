"""Alerts about the control plane's own alerting: either way to be told watches the other."""

from controlplane.slo.alert_windows import MINUTE, Severity
from controlplane.slo.prometheus.static_alert import StaticAlert
from dataplane import names

_RUNBOOK = "notifier-silent"
OF_EVALUATION = (
    StaticAlert(
        name="PilothouseEvaluationStale",
        severity=Severity.TICKET,
        expr=f"{names.CONTROLPLANE_SLO_EVALUATION_AGE_SECONDS} > 600",
        for_seconds=5 * MINUTE,
        summary="The control plane has not evaluated objectives for ten minutes",
        description="{{ $labels.instance }} did {{ $value | humanizeDuration }} ago. What burns "
        "opens no incident by itself, and its notifiers tell nobody.",
        runbook=_RUNBOOK,
    ),
    StaticAlert(
        name="PilothouseNotifierSilent",
        severity=Severity.TICKET,
        expr=f"{names.CONTROLPLANE_NOTICES_DUE} > 0",
        for_seconds=10 * MINUTE,
        summary="A notifier of the control plane does not take what is to be told",
        description="{{ $value | humanize }} messages are due at {{ $labels.notifier }}: who "
        "should hear of them did not.",
        runbook=_RUNBOOK,
    ),
)
