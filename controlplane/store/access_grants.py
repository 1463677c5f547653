"""What a role may be granted with: shared by keys and users."""

from sqlalchemy.orm import Session

from controlplane.specs.kind import Kind
from controlplane.specs.tenant import DEFAULT_TENANT
from controlplane.store.revisions import find_latest
from dataplane.access import Role

_NEEDS_TENANT = frozenset({Role.CLIENT})
_TAKES_TENANT = frozenset({Role.CLIENT, Role.VIEWER})


class AccessError(ValueError):
    """A change of keys or users that cannot be made; the message says why and what to do."""


def check_grant(session: Session, role: Role, tenant: str | None) -> None:
    """Raises AccessError for a tenant that is missing, unknown, or beyond the role."""
    if tenant is None:
        if role in _NEEDS_TENANT:
            raise AccessError(f"a key with role {role} belongs to a tenant; name it")
        return
    if role not in _TAKES_TENANT:
        raise AccessError(
            f"role {role} cannot be bound to a tenant; {' and '.join(sorted(_TAKES_TENANT))} can"
        )
    if tenant != DEFAULT_TENANT and find_latest(session, Kind.TENANT, tenant) is None:
        raise AccessError(f"there is no Tenant {tenant}; apply its document first")
