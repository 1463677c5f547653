"""Admission: who is let in, who waits, who is turned away, and by what."""

from controlplane.slo.prometheus.alerts_of_processes import GATEWAY_JOB
from dashboards.fleet import fleet_variables
from dashboards.frame import Plan
from dashboards.latency_panels import percentiles
from dashboards.panel import Panel, Row, Unit
from dashboards.query import SCOPE, Query, label_is, or_zero, per_second, series, total
from dataplane import names

_REASON, _KIND = f"{{{{{names.LABEL_REASON}}}}}", f"{{{{{names.LABEL_KIND}}}}}"
_OF_ENDED = per_second(names.GATEWAY_ENDED_TOTAL, *SCOPE)


def admission() -> Plan:
    """Over all gateways."""
    return Plan(
        uid="pilothouse-admission",
        title="Pilothouse / Admission",
        says="Who is let in, who waits and for how long, who is turned away and why.",
        variables=fleet_variables(),
        rows=[_turned_away(), _waiting(), _held(), _other()],
        console_path="/",
    )


def _turned_away() -> Row:
    return Row(
        title="Who is turned away",
        panels=[_rejected(), _share_of_offered(), _without_key()],
    )


def _rejected() -> Panel:
    return Panel(
        title="Rejected on arrival",
        says="By the code that callers were told. Overload and a limit of the caller's "
        "own are different codes.",
        unit=Unit.REQUESTS_PER_SECOND,
        is_stacked=True,
        queries=[
            Query(
                expr=or_zero(
                    per_second(names.GATEWAY_REJECTED_TOTAL, *SCOPE, by=(names.LABEL_REASON,)),
                    GATEWAY_JOB,
                ),
                legend=_REASON,
            )
        ],
        runbook="policy-rejecting",
    )


def _share_of_offered() -> Panel:
    return Panel(
        title="Share of what was offered",
        says="That was rejected, and that got less than it asked for.",
        unit=Unit.SHARE,
        queries=[
            Query(
                expr=f"({or_zero(per_second(name, *SCOPE), GATEWAY_JOB)}) / "
                f"on () ({_OF_ENDED} > 0)",
                legend=what,
            )
            for name, what in (
                (names.GATEWAY_REJECTED_TOTAL, "rejected"),
                (names.GATEWAY_DEGRADED_TOTAL, "degraded"),
            )
        ],
        runbook="overload",
    )


def _without_key() -> Panel:
    return Panel(
        title="Without a valid key",
        says="Calls that are counted here alone, by the code they were answered with.",
        unit=Unit.REQUESTS_PER_SECOND,
        queries=[
            Query(
                expr=or_zero(
                    per_second(names.GATEWAY_UNAUTHENTICATED_TOTAL, by=(names.LABEL_CODE,)),
                    GATEWAY_JOB,
                ),
                legend=f"{{{{{names.LABEL_CODE}}}}}",
            )
        ],
        runbook="key-leaked",
    )


def _waiting() -> Row:
    return Row(title="Who waits", panels=[_queued(), _oldest(), _queue_time()])


def _queued() -> Panel:
    gateway = f"{{{{{names.LABEL_GATEWAY}}}}}"
    return Panel(
        title="In the queue",
        says="Requests that wait for a slot, by gateway.",
        queries=[
            Query(expr=total(names.GATEWAY_QUEUED, by=(names.LABEL_GATEWAY,)), legend=gateway)
        ],
        runbook="queue-overload",
    )


def _oldest() -> Panel:
    gateway = f"{{{{{names.LABEL_GATEWAY}}}}}"
    return Panel(
        title="The oldest of them",
        says="How long it has waited; 0 where nobody waits.",
        unit=Unit.SECONDS,
        queries=[
            Query(
                expr=f"max by ({names.LABEL_GATEWAY}) "
                f"({names.GATEWAY_OLDEST_QUEUED_SECONDS}) or "
                f"0 * max by ({names.LABEL_GATEWAY}) ({names.GATEWAY_QUEUED} == 0)",
                legend=gateway,
            )
        ],
        runbook="queue-head-of-line",
    )


def _queue_time() -> Panel:
    return Panel(
        title="Time in the queue",
        says="Of requests whose engine work began; those that left earlier are not in it.",
        unit=Unit.SECONDS,
        queries=percentiles(names.GATEWAY_QUEUE_TIME_SECONDS, *SCOPE),
        runbook="queue-overload",
    )


def _held() -> Row:
    return Row(
        title="What is inside",
        panels=[_inside(), _holdings(), _held_back()],
    )


def _inside() -> Panel:
    return Panel(
        title="Undecided and active",
        says="Requests that are in the gateways now: without a decision, and admitted.",
        is_stacked=True,
        queries=[
            Query(
                expr=total(names.GATEWAY_REQUESTS, label_is(names.LABEL_STATE, state)),
                legend=state,
            )
            for state in ("undecided", "active")
        ],
    )


def _holdings() -> Panel:
    return Panel(
        title="What they hold",
        says="By kind: places, slots, blocks, tokens, bytes. All are 0 when nothing runs; "
        "one that is not is a leak.",
        queries=[Query(expr=total(names.GATEWAY_HELD, by=(names.LABEL_KIND,)), legend=_KIND)],
        runbook="request-not-released",
    )


def _held_back() -> Panel:
    return Panel(
        title="Replicas held back, and overrides",
        says="Replicas that are sent less than the others since they do worse, and "
        "break-glass overrides that are enforced now.",
        queries=[
            Query(expr=total(names.GATEWAY_HELD_BACK_REPLICAS), legend="held back"),
            Query(
                expr=or_zero(total(names.GATEWAY_OVERRIDES, by=(names.LABEL_KIND,)), GATEWAY_JOB),
                legend=f"override {_KIND}",
            ),
        ],
        runbook="replica-ejected",
    )


def _other() -> Row:
    return Row(
        title="Who reads, and by which rules",
        panels=[_slow_clients(), _snapshot_lag()],
    )


def _slow_clients() -> Panel:
    return Panel(
        title="Clients that read too slowly",
        says="Their engine was paused, held up, or they were ended.",
        unit=Unit.REQUESTS_PER_SECOND,
        width=12,
        queries=[
            Query(
                expr=or_zero(
                    per_second(names.GATEWAY_SLOW_CLIENTS_TOTAL, *SCOPE, by=(names.LABEL_KIND,)),
                    GATEWAY_JOB,
                ),
                legend=_KIND,
            )
        ],
        runbook="slow-clients",
    )


def _snapshot_lag() -> Panel:
    return Panel(
        title="Snapshots that gateways lack",
        says="Versions between what should be enforced and what is: 0 within seconds of a change.",
        width=12,
        queries=[
            Query(
                expr=f"max({names.CONTROLPLANE_SNAPSHOT_VERSION}) - on () group_right () "
                f"{series(names.GATEWAY_SNAPSHOT_VERSION)}",
                legend=f"{{{{{names.LABEL_GATEWAY}}}}}",
            )
        ],
        runbook="snapshot-not-followed",
    )
