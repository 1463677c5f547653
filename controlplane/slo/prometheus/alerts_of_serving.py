"""Alerts for deployments and replicas: what will hurt callers, or is never given back."""

from controlplane.slo.alert_windows import MINUTE, Severity
from controlplane.slo.prometheus.static_alert import OF_DEPLOYMENT, StaticAlert
from dataplane import names

CRASH_LOOP = "PilothouseReplicaCrashLoop"
STRAY_PROCESS = "PilothouseStrayProcess"
LOOP_FROM = 3
"""Failures in a row: one is replaced at once, two may be chance."""
_FAILURES = f"max_over_time({names.CONTROLPLANE_DEPLOYMENT_FAILURES}[5m])"
"""Of the last minutes: a replica that is ready for moments between two failures ends no loop."""

OF_SERVING = (
    StaticAlert(
        name="PilothouseQueueOld",
        severity=Severity.TICKET,
        expr=f"{names.GATEWAY_OLDEST_QUEUED_SECONDS} > 60",
        for_seconds=5 * MINUTE,
        summary="A request has waited for over a minute",
        description="At {{ $labels.instance }} the oldest request in the queue has waited for "
        "{{ $value | humanizeDuration }}.",
        runbook="queue-overload",
        page="requests/live",
    ),
    StaticAlert(
        name="PilothousePreempting",
        severity=Severity.TICKET,
        expr=f"60 * rate({names.REPLICA_PREEMPTIONS_TOTAL}[5m]) > 6",
        for_seconds=10 * MINUTE,
        summary="A replica computes again and again what it had",
        description="{{ $labels.replica }} preempts {{ $value | humanize }} sequences a minute.",
        runbook="cache-thrash",
        page=OF_DEPLOYMENT,
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
        page=OF_DEPLOYMENT,
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
        page=OF_DEPLOYMENT,
    ),
    StaticAlert(
        name=CRASH_LOOP,
        severity=Severity.PAGE,
        expr=f"{_FAILURES} >= {LOOP_FROM}",
        for_seconds=0,
        summary="Replicas of a deployment fail again and again",
        description="{{ $value }} replicas of {{ $labels.deployment }} failed one after the "
        "other. Its page says how the last one ended, and when the next one is started.",
        runbook="replica-crash-loop",
        page=OF_DEPLOYMENT,
    ),
    StaticAlert(
        name=STRAY_PROCESS,
        severity=Severity.TICKET,
        expr=f"max by ({names.LABEL_KIND}) ({names.CONTROLPLANE_STRAY_PROCESSES}) > 0",
        for_seconds=2 * MINUTE,
        summary="A process is there that should not be",
        description="{{ $value }} of kind {{ $labels.kind }}: it outlived its replica and could "
        "not be ended, or it listens on a replica's port and is none of ours.",
        runbook="stray-process",
        page="deployments",
    ),
    StaticAlert(
        name="PilothouseDeploymentHeld",
        severity=Severity.TICKET,
        expr=f"{names.CONTROLPLANE_DEPLOYMENT_HELD} == 1"
        f" unless on ({names.LABEL_DEPLOYMENT}) {_FAILURES}",
        for_seconds=5 * MINUTE,
        summary="A deployment lacks replicas, and none can be started",
        description="The operator starts no replica of {{ $labels.deployment }}, although none "
        "failed: a plugin, a launcher or an artifact is missing. Its page says which.",
        runbook="plugin-missing",
        page=OF_DEPLOYMENT,
    ),
)
