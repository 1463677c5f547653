"""The control plane itself, the gateways as processes, and whether alerting works."""

from controlplane.slo.prometheus.alerts_of_alerting import WATCHDOG
from controlplane.slo.prometheus.alerts_of_processes import CONTROL_PLANE_JOB
from dashboards.frame import Plan
from dashboards.panel import Kind, Panel, Row, Unit
from dashboards.query import INTERVAL, Query, label_is, or_zero, per_second, series, total
from dataplane import names

_GATEWAY, _INSTANCE = f"{{{{{names.LABEL_GATEWAY}}}}}", "{{instance}}"


def control_plane() -> Plan:
    """Who watches, watched."""
    return Plan(
        uid="pilothouse-controlplane",
        title="Pilothouse / Control plane",
        says="Is Pilothouse itself well: operator, records, diagnosis, processes, alerting.",
        rows=[_alive(), _operator(), _records(), _diagnosis(), _processes()],
        console_path="/",
    )


def _alive() -> Row:
    return Row(
        title="Is everybody there?",
        height=6,
        panels=[_answering(), _report_age(), _watchdog(), _rule_time()],
    )


def _answering() -> Panel:
    return Panel(
        title="Who answers",
        says="1 where the last scrape was answered.",
        queries=[
            Query(
                expr='min by (job, instance) (up{job=~"pilothouse-.*"})',
                legend="{{job}} {{instance}}",
            )
        ],
        runbook="telemetry-missing",
    )


def _report_age() -> Panel:
    return Panel(
        title="Age of the last report",
        says="Of each gateway. What the console shows of it is so old.",
        unit=Unit.SECONDS,
        queries=[
            Query(expr=series(names.CONTROLPLANE_GATEWAY_REPORT_AGE_SECONDS), legend=_GATEWAY)
        ],
        runbook="records-not-arriving",
    )


def _watchdog() -> Panel:
    return Panel(
        title="Alerting",
        says="The watchdog fires always: without it nobody would be told of anything.",
        kind=Kind.FIGURE,
        width=4,
        queries=[
            Query(
                expr=series("ALERTS", label_is("alertname", WATCHDOG.name), 'alertstate="firing"'),
                legend="watchdog",
            )
        ],
        runbook="alerting-silent",
    )


def _rule_time() -> Panel:
    return Panel(
        title="Rules of Prometheus",
        says="How much of its interval the slowest group takes: above 100 % it lags.",
        unit=Unit.SHARE,
        width=4,
        queries=[
            Query(
                expr="max(prometheus_rule_group_last_duration_seconds / "
                "prometheus_rule_group_interval_seconds)",
                legend="slowest group",
            )
        ],
        runbook="alerting-silent",
    )


def _operator() -> Row:
    return Row(
        title="Is what is desired brought about?",
        panels=[_passes(), _held(), _versions()],
    )


def _passes() -> Panel:
    return Panel(
        title="Passes of the operator",
        says="And those that ended with an error.",
        unit=Unit.PER_SECOND,
        queries=[
            Query(expr=per_second(names.CONTROLPLANE_OPERATOR_PASSES), legend="passes"),
            Query(expr=per_second(names.CONTROLPLANE_OPERATOR_FAILURES), legend="failed"),
        ],
        runbook="snapshot-not-followed",
    )


def _held() -> Panel:
    return Panel(
        title="Deployments held",
        says="No replica of them is started for now: the last ones failed, or none can be.",
        queries=[
            Query(
                expr=or_zero(
                    total(names.CONTROLPLANE_DEPLOYMENT_HELD, by=(names.LABEL_DEPLOYMENT,)),
                    CONTROL_PLANE_JOB,
                ),
                legend=f"{{{{{names.LABEL_DEPLOYMENT}}}}}",
            )
        ],
        runbook="replica-crash-loop",
    )


def _versions() -> Panel:
    return Panel(
        title="Versions of the snapshot",
        says="What should be enforced, and what each gateway enforces.",
        queries=[
            Query(expr=f"max({names.CONTROLPLANE_SNAPSHOT_VERSION})", legend="should be"),
            Query(expr=series(names.GATEWAY_SNAPSHOT_VERSION), legend=_GATEWAY),
        ],
        runbook="snapshot-not-followed",
    )


def _records() -> Row:
    return Row(
        title="Do records and spans arrive?",
        panels=[_spooled(), _lost(), _data_size()],
    )


def _spooled() -> Panel:
    return Panel(
        title="Records that wait at gateways",
        says="Not confirmed by the control plane yet; bounded, so that they are lost in "
        "the end if it stays away.",
        queries=[Query(expr=series(names.GATEWAY_RECORDS_SPOOLED), legend=_GATEWAY)],
        runbook="records-not-arriving",
    )


def _lost() -> Panel:
    return Panel(
        title="Lost and refused",
        says="Records that will never arrive, deliveries that the request database "
        "refused for want of room, spans that were not exported.",
        unit=Unit.PER_SECOND,
        queries=[
            *(
                Query(expr=per_second(name), legend=what)
                for name, what in (
                    (names.GATEWAY_RECORDS_LOST_TOTAL, "records lost"),
                    (names.CONTROLPLANE_REQUEST_DATA_REFUSALS_TOTAL, "deliveries refused"),
                    (names.GATEWAY_SPANS_DROPPED_TOTAL, "spans not exported"),
                )
            ),
            Query(
                expr=or_zero(per_second(names.CONTROLPLANE_SPANS_DROPPED_TOTAL), CONTROL_PLANE_JOB),
                legend="spans of others dropped",
            ),
        ],
        runbook="requests-lost",
    )


def _data_size() -> Panel:
    return Panel(
        title="Size of the request data",
        says="On PostgreSQL an estimate of what living rows take up.",
        unit=Unit.BYTES,
        queries=[Query(expr=series(names.CONTROLPLANE_REQUEST_DATA_BYTES), legend=_INSTANCE)],
        runbook="request-database-full",
    )


def _diagnosis() -> Row:
    return Row(
        title="Does anybody look what is wrong?",
        panels=[_look_age(), _pass_time(), _failures()],
    )


def _look_age() -> Panel:
    return Panel(
        title="Age of the last look",
        says="Of the rules of diagnosis, by deployment.",
        unit=Unit.SECONDS,
        queries=[
            Query(
                expr=series(names.CONTROLPLANE_DIAGNOSIS_AGE_SECONDS),
                legend=f"{{{{{names.LABEL_DEPLOYMENT}}}}}",
            )
        ],
        runbook="telemetry-stale",
    )


def _pass_time() -> Panel:
    return Panel(
        title="Time of a pass",
        says="Over all deployments.",
        unit=Unit.SECONDS,
        queries=[Query(expr=series(names.CONTROLPLANE_DIAGNOSIS_PASS_SECONDS), legend=_INSTANCE)],
    )


def _failures() -> Panel:
    return Panel(
        title="What failed",
        says="Looks, pages of replicas that were not answered, and rules that broke: what "
        "they would have said is missing.",
        unit=Unit.PER_SECOND,
        queries=[
            Query(
                expr=per_second(names.CONTROLPLANE_DIAGNOSIS_FAILURES_TOTAL),
                legend="looks",
            ),
            Query(
                expr=per_second(names.CONTROLPLANE_DIAGNOSIS_SCRAPES_FAILED_TOTAL),
                legend="pages",
            ),
            Query(
                expr=or_zero(
                    per_second(
                        names.CONTROLPLANE_DIAGNOSIS_RULE_FAILURES_TOTAL,
                        by=(names.LABEL_RULE,),
                    ),
                    CONTROL_PLANE_JOB,
                ),
                legend=f"rule {{{{{names.LABEL_RULE}}}}}",
            ),
        ],
        runbook="telemetry-missing",
    )


def _processes() -> Row:
    return Row(title="The gateways as processes", panels=[_processor(), _memory(), _uptime()])


def _processor() -> Panel:
    ours = f"and on (job, instance) {names.GATEWAY_SNAPSHOT_VERSION}"
    return Panel(
        title="Processor",
        says="Cores that each gateway takes. One that takes a whole one is its own limit.",
        queries=[
            Query(expr=f"rate(process_cpu_seconds_total[{INTERVAL}]) {ours}", legend=_GATEWAY)
        ],
        runbook="delivery-front-end-bound",
    )


def _memory() -> Panel:
    ours = f"and on (job, instance) {names.GATEWAY_SNAPSHOT_VERSION}"
    return Panel(
        title="Memory",
        says="Resident, of each gateway.",
        unit=Unit.BYTES,
        queries=[Query(expr=f"process_resident_memory_bytes {ours}", legend=_GATEWAY)],
        runbook="oom-host-memory",
    )


def _uptime() -> Panel:
    ours = f"and on (job, instance) {names.GATEWAY_SNAPSHOT_VERSION}"
    return Panel(
        title="Running since",
        says="Seconds since each gateway started: a fall is a restart.",
        unit=Unit.SECONDS,
        queries=[Query(expr=f"time() - process_start_time_seconds {ours}", legend=_GATEWAY)],
        runbook="gateway-restart",
    )
