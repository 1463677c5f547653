"""The paths of a guarded plane, and the tenants and the gateway that call it."""

from typing import Any

from fastapi.routing import iter_route_contexts

from tests.controlplane.guarded_plane import GuardedPlane

GATEWAY_ID = "gateway-0-9c1f9c1f9c1f"


TENANT = """
apiVersion: pilothouse/v1
kind: Tenant
metadata: {name: acme}
spec: {tier: gold}
---
apiVersion: pilothouse/v1
kind: Tenant
metadata: {name: rival}
spec: {}
"""


def apply_tenants(caller: Any, reason: str = "for the test") -> Any:
    files = [{"name": "tenants.yaml", "text": TENANT}]
    return caller.post(
        "/api/v1/apply", json={"files": files, "author": "somebody else", "reason": reason}
    )


def routes_of(plane: GuardedPlane) -> list[tuple[str, str]]:
    return sorted(
        (method, context.path)
        for context in iter_route_contexts(plane.app.routes)
        if context.path is not None
        for method in (context.methods or set()) - {"HEAD", "OPTIONS"}
    )
