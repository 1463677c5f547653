"""What the control plane and the processes it knows tell about themselves."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from controlplane.support.archive import Archive
from controlplane.support.asking import Asker, AskError
from controlplane.support.state import (
    gateway_addresses,
    gateway_headers,
    replica_metrics_addresses,
)

Gather = Callable[[Archive], None]

PATHS = {
    "documents.json": "/api/v1/config",
    "deployments.json": "/api/v1/deployments",
    "replicas.json": "/api/v1/replicas?limit=500",
    "gateways.json": "/api/v1/gateways",
    "overview.json": "/api/v1/overview",
    "diagnosis.json": "/api/v1/diagnosis",
    "incidents.json": "/api/v1/incidents?state=open",
    "alerts.json": "/api/v1/alerts",
    "slo.json": "/api/v1/slo",
    "alerting.json": "/api/v1/slo/alerting",
}
_ENDED_BADLY = ("error", "lost", "deadline", "shed", "rejected")
_NUM_REQUESTS = 100
# A reason may quote what a caller sent, a tenant is a customer's name.
_KEPT_OF_A_REQUEST = (
    "request_id", "trace_id", "gateway_id", "gateway_sequence", "arrived_at_unix_ns", "deployment",
    "request_class", "model_revision", "policy_revision", "contract_revision", "engine",
    "replica_id", "num_attempts", "status_code", "disposition", "delivery", "num_prompt_tokens",
    "num_cached_tokens", "num_output_tokens", "in_contract", "queue_seconds", "ttft_seconds",
    "tpot_seconds", "e2e_seconds", "finished_seconds", "last_write_seconds", "released_seconds",
)  # fmt: skip


def add_answer(asker: Asker, name: str, path: str) -> Gather:
    """What the control plane answers at `path`."""

    def gather(archive: Archive) -> None:
        archive.add_json(f"api/{name}", asker.ask(path))

    return gather


def add_health(asker: Asker) -> Gather:
    """Whether the control plane calls itself well."""

    def gather(archive: Archive) -> None:
        archive.add_text("api/health.txt", asker.text(f"{asker.url}/healthz"))

    return gather


def add_requests(asker: Asker) -> Gather:
    """The newest requests that ended badly: their numbers, nothing of their content."""

    def gather(archive: Archive) -> None:
        found: dict[str, Any] = {}
        for disposition in _ENDED_BADLY:
            path = f"/api/v1/requests?disposition={disposition}&limit={_NUM_REQUESTS}"
            rows = asker.ask(path)["requests"]
            found[disposition] = [
                {name: row[name] for name in _KEPT_OF_A_REQUEST if name in row} for row in rows
            ]
        archive.add_json("api/requests.json", found)

    return gather


def add_metrics(asker: Asker, state_dir: Path) -> Gather:
    """The metrics of every process, as Prometheus would read them.

    A gateway says itself where it is. So it is shown what the control plane shows it, a key that
    opens that one gateway and is worth nothing elsewhere, and never the key of who asks.
    """

    def gather(archive: Archive) -> None:
        gateways, replicas = _known_addresses(asker, state_dir)
        _add_metrics(archive, asker, "controlplane", f"{asker.url}/metrics", None)
        for name, base in sorted(gateways.items()):
            headers = gateway_headers(state_dir, name)
            _add_metrics(archive, asker, name, f"{base.rstrip('/')}/metrics", headers)
        for replica_id, address in sorted(replicas.items()):
            _add_metrics(archive, asker, replica_id, f"http://{address}/metrics", {})

    return gather


def _add_metrics(
    archive: Archive, asker: Asker, name: str, address: str, headers: Mapping[str, str] | None
) -> None:
    try:
        archive.add_text(f"metrics/{name}.prom", asker.text(address, headers))
    except AskError as error:
        archive.note_missing(f"metrics/{name}.prom", str(error))


def _known_addresses(asker: Asker, state_dir: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Base URLs of gateways by name, host:port of replicas by id; what the control plane does not
    know is read from the state directory."""
    gateways = gateway_addresses(state_dir)
    replicas = replica_metrics_addresses(state_dir)
    try:
        reports = asker.ask(PATHS["gateways.json"])["gateways"]
        # The newest one last: after a restart two of a name may be there, one of them draining.
        reports.sort(key=lambda each: each["started_at_unix_ns"])
        gateways |= {each["name"]: each["address"] for each in reports}
        replicas |= {
            each["replica_id"]: each["metrics_address"]
            for each in asker.ask(PATHS["replicas.json"])["replicas"]
            if each["metrics_address"]
        }
    except AskError:
        pass  # noted where these two are sections of their own
    return gateways, replicas
