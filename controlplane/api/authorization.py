"""What a call needs: one table for the whole API and the console.

A route that stands in no set here can be read by every viewer without a tenant, and changed
through by admins alone.
"""

import re
from collections.abc import Iterable

from fastapi import HTTPException, Request

from controlplane.access.principal import LOCAL, Principal
from controlplane.api.authentication import is_public, principal_of
from dataplane.access import Role

_SAFE_METHODS = frozenset({"GET", "HEAD"})

FOR_GATEWAYS = frozenset(
    {
        ("PUT", "/api/v1/gateways/{name}"),
        ("GET", "/api/v1/gateways/{name}/snapshots"),
        ("POST", "/api/v1/records"),
    }
)
FOR_OPERATORS = frozenset(
    {
        ("POST", "/api/v1/apply"),
        ("POST", "/api/v1/overrides"),
        ("POST", "/api/v1/plan"),
        ("POST", "/api/v1/slo/test-alert"),
        ("DELETE", "/api/v1/overrides/{override_id}"),
        ("POST", "/api/v1/rollouts/{number}/{asked}"),
        ("POST", "/api/v1/silences"),
        ("POST", "/api/v1/silences/plan"),
        ("DELETE", "/api/v1/silences/{silence_id}"),
        ("POST", "/api/v1/incidents/{incident_id}/acknowledge"),
        ("POST", "/api/v1/incidents/{incident_id}/notes"),
        ("POST", "/api/v1/incidents/{incident_id}/resolve"),
        ("POST", "/incidents/{incident_id}"),
        ("POST", "/break-glass"),
        ("POST", "/break-glass/end"),
        ("POST", "/rollouts/{number}"),
        ("POST", "/silences"),
        ("POST", "/silences/plan"),
        ("POST", "/silences/end"),
    }
)
FOR_ADMINS = frozenset(
    {
        ("GET", "/api/v1/keys"),
        ("GET", "/api/v1/users"),
        ("GET", "/access"),
    }
)
FOR_EVERYBODY = frozenset({("GET", "/api/v1/me"), ("POST", "/logout")})
"""Whoever is known."""
FOR_TENANTS = frozenset(
    {
        ("GET", "/api/v1/requests"),
        ("GET", "/api/v1/requests/live"),
        ("GET", "/api/v1/requests/{request_id:path}"),
        ("GET", "/api/v1/usage"),
        ("GET", "/"),
        ("GET", "/requests"),
        ("GET", "/requests/live"),
        ("GET", "/requests/{request_id:path}"),
        ("GET", "/usage"),
    }
)
"""Shows a viewer who is bound to a tenant what is that tenant's, and nothing else."""
FROM_ALERTMANAGERS = frozenset({("POST", "/api/v1/alerts/alertmanager")})
"""Alertmanager's key opens nothing else; whoever may change what runs may tell of alerts too."""
FROM_CLIENTS = frozenset({("POST", "/v1/traces")})
"""Clients report their own side of their own requests; engines and gateways report theirs."""


def authorize(request: Request) -> None:
    """A dependency of every route. Raises HTTPException with 403."""
    path = request.scope["route"].path
    if is_public(request.url.path):
        return
    method = "GET" if request.method == "HEAD" else request.method
    why = find_refusal(principal_of(request), method, path)
    if why is not None:
        raise HTTPException(403, why)


def find_refusal(principal: Principal, method: str, path: str) -> str | None:
    """Why `principal` may not call this route; None when it may."""
    route = (method, path)
    if principal is LOCAL or route in FOR_EVERYBODY:
        return None
    if route in FROM_CLIENTS:
        may = principal.may(Role.CLIENT) or principal.may(Role.GATEWAY)
        return None if may or principal.may(Role.ADMIN) else _needs(principal, Role.CLIENT)
    needed = required_role(method, path)
    if route in FROM_ALERTMANAGERS and principal.may(Role.OPERATOR):
        return None
    if not principal.may(needed):
        return _needs(principal, needed)
    if principal.tenant is not None and route not in FOR_TENANTS:
        return f"{principal.name} is bound to tenant {principal.tenant}, and sees its requests only"
    return None


def required_role(method: str, path: str) -> Role:
    """The least that a caller must be."""
    route = (method, path)
    if route in FOR_GATEWAYS:
        return Role.GATEWAY
    if route in FROM_ALERTMANAGERS:
        return Role.ALERTMANAGER
    if route in FOR_OPERATORS:
        return Role.OPERATOR
    if route in FOR_ADMINS or method not in _SAFE_METHODS:
        return Role.ADMIN
    return Role.VIEWER


def check_gateway_name(request: Request, name: str) -> None:
    """A gateway speaks for itself alone: its key is called as it is. Raises HTTPException, 403."""
    principal = principal_of(request)
    if principal is not LOCAL and name != principal.name:
        raise HTTPException(403, _foreign_gateway(principal, name))


def check_gateway_ids(request: Request, gateway_ids: Iterable[str]) -> None:
    """Only of its own processes: its name, a hyphen and twelve hex digits. As above."""
    principal = principal_of(request)
    if principal is LOCAL:
        return
    own = re.compile(re.escape(principal.name) + r"-[0-9a-f]{12}")
    for gateway_id in gateway_ids:
        if not own.fullmatch(gateway_id):
            raise HTTPException(403, _foreign_gateway(principal, gateway_id))


def _foreign_gateway(principal: Principal, said: str) -> str:
    return (
        f"the key {principal.name} is of the gateway called so, and this is about "
        f"{said[:128]!r}: make a key with that gateway's name"
    )


def tenant_of(request: Request) -> str | None:
    """The only tenant whose requests this caller may see; None: all of them."""
    return principal_of(request).tenant


def _needs(principal: Principal, role: Role) -> str:
    return f"this needs the role {role}; {principal.name} has {principal.role}"
