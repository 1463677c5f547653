"""Alerts of what the operator sees: replicas that fail again and again, and strays. Pure.

They are the same as those that Prometheus makes of the same figures, so that an incident has each
once; here they are told also where there is no Prometheus.
"""

from collections.abc import Mapping, Sequence

from controlplane.operator.stray import Stray
from controlplane.slo.alert import Alert, AlertSource, AlertSubject
from controlplane.slo.alert_windows import Severity
from controlplane.slo.prometheus.alerts_of_serving import CRASH_LOOP, LOOP_FROM, STRAY_PROCESS
from controlplane.slo.prometheus.links import Links

_STRAY_NS = 60 * 10**9
"""What is ours is ended within some seconds; what is there for longer needs somebody."""


def crash_loop_alerts(
    failures: Mapping[str, int],
    why: Mapping[str, str],
    teams: Mapping[str, str | None],
    links: Links,
    now_unix_ns: int,
) -> list[Alert]:
    """`failures`: how many replicas of a deployment failed in a row; `why`: what it waits for."""
    return [
        Alert(
            subject=AlertSubject(name=CRASH_LOOP, severity=Severity.PAGE, deployment=name),
            source=AlertSource.CONTROL_PLANE,
            summary="Replicas of a deployment fail again and again",
            description=f"{number} replicas of {name} failed one after the other. "
            + (f"It waits: {why[name]}" if name in why else "The next one is being started."),
            started_at_unix_ns=now_unix_ns,
            runbook_url=links.runbook("replica-crash-loop"),
            dashboard_url=links.deployment(name),
            team=teams.get(name),
        )
        for name, number in sorted(failures.items())
        if number >= LOOP_FROM
    ]


def stray_alerts(strays: Sequence[Stray], links: Links, now_unix_ns: int) -> list[Alert]:
    """One for all processes that should not be, and have been there for a minute."""
    lasting = [
        each
        for each in strays
        if each.ended_at_unix_ns is None and now_unix_ns - each.found_at_unix_ns >= _STRAY_NS
    ]
    if not lasting:
        return []
    return [
        Alert(
            subject=AlertSubject(name=STRAY_PROCESS, severity=Severity.TICKET),
            source=AlertSource.CONTROL_PLANE,
            summary="A process is there that should not be",
            description="; ".join(_tell(each) for each in lasting),
            started_at_unix_ns=now_unix_ns,
            runbook_url=links.runbook("stray-process"),
            dashboard_url=links.page("deployments"),
        )
    ]


def _tell(stray: Stray) -> str:
    error = f"; it could not be ended: {stray.error}" if stray.error else ""
    return f"{stray.kind} pid {stray.process.pid} of {stray.process.replica_id}: {stray.why}{error}"
