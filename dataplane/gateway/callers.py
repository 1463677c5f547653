"""Who calls this gateway: a client by its key, or, without authentication, by a header."""

from collections.abc import Mapping

from dataplane.access import AccessKey, AuthMode, KeyProblem, KeyRing, Role, read_bearer
from dataplane.gateway.openai_api.errors import refuse

TENANT_HEADER = "x-pilothouse-tenant"
DEFAULT_TENANT = "default"
PROBE_TENANT = "_pilothouse"
"""Whose the probes are. No Tenant document can have this name, and no client can be it."""

_PROBLEMS = {
    KeyProblem.MALFORMED: "Incorrect API key provided: a key looks like phk_<id>_<secret>.",
    KeyProblem.UNKNOWN: "Incorrect API key provided: it is not known here, or was revoked.",
    KeyProblem.EXPIRED: "This API key has expired. Ask for a new one.",
}


def name_tenant(auth: AuthMode, keys: KeyRing, headers: Mapping[str, str], now_unix_ns: int) -> str:
    """The tenant that a request is for. Raises ApiRefusalError with 401 or 403.

    With authentication it is the key's, and a header that says otherwise is refused.
    """
    said = headers.get(TENANT_HEADER)
    if auth is AuthMode.OFF:
        return said or DEFAULT_TENANT
    key = _open(keys, headers, now_unix_ns)
    if key.role is not Role.CLIENT or key.tenant is None:
        raise refuse(
            f"This key has the role {key.role}, which sends no requests: use a client's key.",
            status=403,
            code="wrong_key_role",
        )
    if said not in (None, key.tenant):
        raise refuse(
            f"The key belongs to another tenant than the header {TENANT_HEADER} names.",
            status=403,
            code="wrong_tenant",
        )
    return key.tenant


def check_client(
    auth: AuthMode, keys: KeyRing, headers: Mapping[str, str], now_unix_ns: int, gateway: str
) -> None:
    """Whoever has a key of any kind, at any gateway. Raises ApiRefusalError with 401."""
    if auth is AuthMode.REQUIRED:
        _open(keys, headers, now_unix_ns)


def check_reader(
    auth: AuthMode, keys: KeyRing, headers: Mapping[str, str], now_unix_ns: int, gateway: str
) -> None:
    """Who may see what the gateway called so does for everybody.

    Raises ApiRefusalError with 401 or 403.
    """
    if auth is AuthMode.OFF:
        return
    key = _open(keys, headers, now_unix_ns)
    if key.role is Role.CONTROL_PLANE and key.gateway == gateway:
        return
    if not key.role.includes(Role.VIEWER) or key.tenant is not None:
        raise refuse(
            "This needs a key with the role viewer that is bound to no tenant.",
            status=403,
            code="wrong_key_role",
        )


def _open(keys: KeyRing, headers: Mapping[str, str], now_unix_ns: int) -> AccessKey:
    token = read_bearer(headers.get("authorization"))
    if token is None:
        raise refuse(
            "You didn't provide an API key. Send it as Authorization: Bearer phk_<id>_<secret>.",
            status=401,
            code="missing_api_key",
        )
    found = keys.find(token, now_unix_ns)
    if isinstance(found, KeyProblem):
        raise refuse(_PROBLEMS[found], status=401, code="invalid_api_key")
    return found
