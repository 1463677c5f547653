"""Replicas, gateways and what happened to them, on a terminal."""

from collections.abc import Sequence

from controlplane.cli.answers import (
    GatewayAnswer,
    GatewayReplicaAnswer,
    RefusedGatewayAnswer,
    ReplicaAnswer,
    TransitionAnswer,
)
from controlplane.cli.terminal import indented, instant, table

STALE_SECONDS = 10.0
"""A gateway reports every second; what is older than this is no longer called current."""


def replica_table(
    replicas: Sequence[ReplicaAnswer], as_of_unix_ns: int, *, is_wide: bool = False
) -> str:
    """One line for each replica that has not ended."""
    if not replicas:
        return "no replica runs"
    head = ["REPLICA", "DEPLOYMENT", "STATE", "STAGE", "SEEN", "MODEL", "ENGINE", "REASON"]
    rows = [head + (["PID", "TOKEN", "ADDRESS", "METRICS", "LAST PROBE"] if is_wide else [])]
    for each in replicas:
        row = [
            each.replica_id,
            each.deployment,
            each.state,
            each.stage or "-",
            seen_ago(each.observed_at_unix_ns, as_of_unix_ns),
            each.model_revision,
            each.engine,
            each.reason or "-",
        ]
        rows.append(row + (_places(each) if is_wide else []))
    return table(rows)


def seen_ago(at_unix_ns: int, as_of_unix_ns: int) -> str:
    """How old what is told was when it was told: both are of the control plane's clock."""
    return f"{max(0.0, (as_of_unix_ns - at_unix_ns) / 1e9):.1f} s ago"


def deployment_replicas(replicas: Sequence[ReplicaAnswer], as_of_unix_ns: int) -> str:
    """The replicas of one deployment."""
    rows = [("REPLICA", "STATE", "SEEN", "MODEL", "ADDRESS", "METRICS", "REASON")]
    rows += [
        (
            each.replica_id,
            each.state,
            seen_ago(each.observed_at_unix_ns, as_of_unix_ns),
            each.model_revision,
            each.address or "-",
            _metrics_url(each),
            each.reason,
        )
        for each in replicas
    ]
    pages = [(each.replica_id, page) for each in replicas if (page := _page(each)) is not None]
    said = f"Their metrics pages:\n{indented(table(pages))}" if pages else ""
    return f"Replicas as last seen:\n{indented(table(rows) if replicas else 'none')}{said}"


def describe_replica(
    replica: ReplicaAnswer, history: Sequence[TransitionAnswer], as_of_unix_ns: int
) -> str:
    """Everything known of one replica."""
    probed, seen_at = replica.probed_at_unix_ns, replica.observed_at_unix_ns
    facts = [
        ("Replica:", replica.replica_id),
        ("Deployment:", replica.deployment),
        ("State:", replica.state),
        ("Reason:", replica.reason or "(none given)"),
        ("Stage:", replica.stage or "unknown"),
        ("Model:", replica.model_revision),
        ("Engine:", replica.engine),
        ("Process:", "unknown" if replica.pid is None else f"pid {replica.pid}"),
        ("Token:", str(replica.fencing_token) if replica.fencing_token else "none"),
        ("Address:", replica.address or "unknown"),
        ("Metrics:", _metrics_url(replica)),
        *([("Page:", page)] if (page := _page(replica)) is not None else []),
        ("Probed:", "never" if probed is None else f"{instant(probed)}, a token was generated"),
        ("Seen:", f"{instant(seen_at)}, {seen_ago(seen_at, as_of_unix_ns)}"),
    ]
    stages = [(stage, f"{seconds:.2f} s") for stage, seconds in replica.start_stages.items()]
    stages += [(stage, "unobservable") for stage in replica.unobservable_stages]
    cost = indented(table(stages)) if stages else "  unknown\n"
    return f"{table(facts)}\nStart took:\n{cost}{describe_transitions(history)}"


def describe_ended_replica(replica_id: str, history: Sequence[TransitionAnswer]) -> str:
    """What is left of a replica that has ended."""
    return f"Replica {replica_id} has ended\n{describe_transitions(history)}"


def describe_transitions(history: Sequence[TransitionAnswer]) -> str:
    """What happened to one replica, newest first."""
    rows = [("AT", "STATE", "REASON")]
    rows += [(instant(each.at_unix_ns), each.state, each.reason or "-") for each in history]
    return f"History:\n{indented(table(rows) if history else 'none kept')}"


def gateway_table(
    gateways: Sequence[GatewayAnswer],
    refused: Sequence[RefusedGatewayAnswer] = (),
    *,
    is_wide: bool = False,
) -> str:
    """One line for each gateway that ever reported, and one for each that is refused."""
    said = "".join(f"\n{_refusal(each)}" for each in refused)
    if not gateways:
        return f"no gateway has reported yet{said}"
    head = ["GATEWAY", "STATE", "ADDRESS", "REPORTED", "CONFIG", "ACTIVE", "QUEUED", "REPLICAS"]
    rows = [head + (["OLDEST WAIT", "SPOOLED", "LOST", "STARTED"] if is_wide else [])]
    for each in gateways:
        connected = sum(replica.is_connected for replica in each.replicas)
        row = [
            each.name,
            _gateway_state(each),
            each.address,
            _age(each),
            str(each.snapshot_version),
            str(each.counts.active),
            str(each.num_queued),
            f"{connected}/{len(each.replicas)}",
        ]
        rows.append(row + (_backlog(each) if is_wide else []))
    return table(rows).rstrip("\n") + said


def describe_gateway(gateway: GatewayAnswer) -> str:
    """Everything one gateway last said."""
    counts = gateway.counts
    facts = [
        ("Gateway:", gateway.name),
        ("Process:", gateway.gateway_id),
        ("State:", _gateway_state(gateway)),
        *([("Its calls:", f"refused, {gateway.refused_because}")] if _is_refused(gateway) else []),
        ("Address:", gateway.address),
        ("Started:", instant(gateway.started_at_unix_ns)),
        ("Reported:", _age(gateway)),
        ("Config:", f"version {gateway.snapshot_version}"),
        ("Refused:", gateway.snapshot_error or "nothing"),
        (
            "Requests:",
            f"{counts.arrived} arrived: {counts.invalid} invalid, {counts.undecided} undecided, "
            f"{counts.rejected} rejected, {counts.admitted} admitted "
            f"({counts.active} active, {counts.finished} finished)",
        ),
        ("Queue:", f"{gateway.num_queued} wait, {_oldest(gateway)}"),
        (
            "Records:",
            f"{gateway.num_records_spooled} wait on disk, {gateway.num_records_lost} lost",
        ),
    ]
    return f"{table(facts)}\nReplicas:\n{indented(_connections(gateway.replicas))}"


def _connections(replicas: Sequence[GatewayReplicaAnswer]) -> str:
    if not replicas:
        return "none"
    rows = [("REPLICA", "CONNECTED", "OUTSTANDING", "TROUBLE")]
    rows += [
        (
            each.replica_id,
            "yes" if each.is_connected else "no",
            str(each.num_outstanding),
            each.error or each.held_back or "-",
        )
        for each in replicas
    ]
    return table(rows)


def _places(replica: ReplicaAnswer) -> list[str]:
    probed = replica.probed_at_unix_ns
    return [
        "-" if replica.pid is None else str(replica.pid),
        str(replica.fencing_token) if replica.fencing_token else "-",
        replica.address or "-",
        _metrics_url(replica),
        "-" if probed is None else instant(probed),
    ]


def _backlog(gateway: GatewayAnswer) -> list[str]:
    return [
        _oldest(gateway),
        str(gateway.num_records_spooled),
        str(gateway.num_records_lost),
        instant(gateway.started_at_unix_ns),
    ]


def _metrics_url(replica: ReplicaAnswer) -> str:
    if replica.look is not None and replica.look.page is not None:
        return replica.look.page
    return f"http://{replica.metrics_address}/metrics" if replica.metrics_address else "-"


def _page(replica: ReplicaAnswer) -> str | None:
    """What the metrics page of one said that is only observed; None: of another."""
    look = replica.look
    if look is None:
        return None
    if look.page_at_unix_ns is None:
        return look.why or "it shows no metrics page"
    age = max(0.0, (replica.observed_at_unix_ns - look.page_at_unix_ns) / 1e9)
    counts = f"{_count(look.num_running)} running, {_count(look.num_waiting)} waiting"
    return f"{counts}, {age:.0f} s before it was seen"


def _count(number: int | None) -> str:
    return "unknown" if number is None else str(number)


def _gateway_state(gateway: GatewayAnswer) -> str:
    if _is_refused(gateway):
        return "refused"
    if gateway.age_seconds >= STALE_SECONDS:
        return "unknown"
    return "draining" if gateway.is_draining else "serving"


def _is_refused(gateway: GatewayAnswer) -> bool:
    """Of two processes of one name one may be refused while the other reports."""
    return gateway.refused_because is not None and gateway.age_seconds >= STALE_SECONDS


def _refusal(refused: RefusedGatewayAnswer) -> str:
    return (
        f"{refused.name} calls and is refused: {refused.why} (last {refused.age_seconds:.0f} s "
        "ago). See the runbook gateway-refused"
    )


def _age(gateway: GatewayAnswer) -> str:
    stale = "" if gateway.age_seconds < STALE_SECONDS else ", stale"
    return f"{gateway.age_seconds:.0f} s ago{stale}"


def _oldest(gateway: GatewayAnswer) -> str:
    seconds = gateway.oldest_queued_seconds
    return "nobody waits" if seconds is None else f"the oldest for {seconds:.1f} s"
