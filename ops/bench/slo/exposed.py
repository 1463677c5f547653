"""What our exporters show of a large installation: their real registries, filled as by its traffic.

Every class of every deployment has met whatever can become of a request, from tenants that take
turns: more label values than these an exporter cannot come to have.
"""

import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from controlplane.operator.observed import ObservedState
from controlplane.specs.enforced import contract_policy
from dataplane.admission.admit import RejectionKind
from dataplane.backlog import TOO_SLOW
from dataplane.engine import EngineStats, ReplicaSpec
from dataplane.gateway.metrics import GatewayMetrics
from dataplane.host.metrics import GAUGES, HostMetrics
from dataplane.lifecycle import Disposition, Event, EventKind, Observability
from dataplane.policy import AdmissionPolicyTerms, DeploymentPolicy, Snapshot
from dataplane.record import RequestRecord
from ops.bench.slo.installation import Installation
from ops.sample_requests import KINDS, Sample, answered, cancelled, rejected
from ops.seeded_state import gateway_report, observed_replicas
from tests.controlplane.guarded_plane import guarded_plane

_CLIENT_READS_SLOWLY = "wait for the client to read"
_NOT_OF_A_GATEWAY = frozenset({"reported"})
"""What clients tell of themselves reaches the control plane alone."""


def series_of(registry: CollectorRegistry) -> list[str]:
    """Every series of a scrape, with its labels."""
    text = generate_latest(registry).decode()
    return [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]


def gateway(installation: Installation) -> CollectorRegistry:
    """Of one through which all of it passes."""
    snapshot = Snapshot(version=1, deployments=tuple(_policies(installation)))
    report = gateway_report(time.time_ns(), "http://127.0.0.1:8701")
    metrics = GatewayMetrics(lambda: report, lambda: 0, lambda: snapshot)
    for record in requests(installation):
        metrics.observe(record)
    metrics.render()
    return metrics.registry


def _policies(installation: Installation) -> Iterator[DeploymentPolicy]:
    contract = contract_policy("large@1", installation.contract())
    for name in installation.deployments:
        yield DeploymentPolicy(
            name=name,
            model_name=name,
            model_revision="m@1",
            engine_config_revision="e@1",
            tokenizer_artifact=None,
            max_model_len=None,
            policy=AdmissionPolicyTerms(revision="p@1", classes=()),
            contract=contract,
            replicas=(),
        )


def requests(installation: Installation) -> Iterator[RequestRecord]:
    """Of each class every kind that there is, sent by all tenants in turn."""
    tenants = itertools.cycle(installation.tenants)
    kinds = list(_kinds())
    for deployment, request_class in installation.scopes:
        for record in kinds:
            is_of_a_class = record.request_class is not None
            yield replace(
                record,
                deployment=deployment,
                request_class=request_class if is_of_a_class else None,
                tenant=next(tenants),
            )


def _kinds() -> Iterator[RequestRecord]:
    sample = Sample(sequence=1, arrived_at_unix_ns=1_790_000_000 * 10**9)
    for name, make in KINDS.items():
        if name not in _NOT_OF_A_GATEWAY:
            yield make(sample)
    refused = rejected(sample)
    assert refused.decision is not None
    for kind in RejectionKind:
        yield replace(refused, decision=msgspec.structs.replace(refused.decision, kind=kind.value))
    yield replace(refused, disposition=Disposition.SHED)
    for observability in (Observability.OBSERVED, Observability.INFERRED):
        yield _held_up(sample, observability)
    yield replace(cancelled(sample), reason=TOO_SLOW)


def _held_up(sample: Sample, observability: Observability) -> RequestRecord:
    record = answered(sample)
    pause = Event(
        kind=EventKind.PAUSED, at=0.1, reason=_CLIENT_READS_SLOWLY, observability=observability
    )
    return replace(record, events=(*record.events, pause))


def replica(deployment: str) -> CollectorRegistry:
    """Of one native engine, which tells all that it can know."""
    metrics = HostMetrics(
        ReplicaSpec(
            replica_id=f"{deployment}-1",
            deployment=deployment,
            engine="paged",
            model_name="m",
            model_revision="m@1",
            engine_config_revision="e@1",
            artifact="m",
        )
    )
    told: dict[str, Any] = {field: 1 for field, _ in GAUGES.values()}
    stats = EngineStats(age_seconds=0.0, num_preemptions=1, **told)
    metrics.observe_step(0.01, stats)
    metrics.set_stats(stats)
    return metrics.registry


def control_plane(installation: Installation) -> list[str]:
    """Series of a real one, as if it watched all of it: replicas in every state, and the operator
    in trouble with every deployment."""
    now = time.time_ns()
    observed = ObservedState()
    observed.put_gateway(gateway_report(now, "http://127.0.0.1:8701"))
    template = observed_replicas(now, has_trouble=False)[0]
    observed.set_replicas(
        [
            replace(template, replica_id=f"{name}-{state}", deployment=name, state=state)
            for name in installation.deployments
            for state in ("starting", "ready", "unreachable", "draining")
        ]
    )
    troubled = SimpleNamespace(
        holds=dict.fromkeys(installation.deployments, "failed"),
        failures=dict.fromkeys(installation.deployments, 1),
        num_passes=1,
        num_failed_passes=0,
    )
    with TemporaryDirectory() as folder, guarded_plane(Path(folder)) as plane:
        state = plane.app.state
        state.observed, state.operator = observed, troubled
        return series_of(state.registry)
