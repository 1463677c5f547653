"""Compact rows of requests, as gateways' records leave them."""

from typing import Any

from controlplane.store.database import Database
from controlplane.store.request_tables import RequestRow


def record_requests(database: Database, *rows: dict[str, Any]) -> None:
    """Each row by what differs from an ordinary request of the deployment chat."""
    with database.session() as session:
        for number, row in enumerate(rows):
            session.add(RequestRow(**_ORDINARY | {"gateway_sequence": number} | row))


_ORDINARY: dict[str, Any] = {
    "gateway_id": "gateway-0-9c1f9c1f9c1f",
    "request_id": "r",
    "trace_id": "t",
    "tenant": "default",
    "request_class": "batch",
    "deployment": "chat",
    "model_revision": "smollm2@1",
    "policy_revision": "chat@1",
    "num_attempts": 1,
    "disposition": "stop",
    "delivery": "complete",
    "num_prompt_tokens": 10,
    "counted_output_tokens": 10,
    "scheduled": 0.01,
    "released": 1.0,
}
