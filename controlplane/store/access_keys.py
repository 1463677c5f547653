"""Keys of programs in the store. Every change of them is audited in the same transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from controlplane.store.access_grants import AccessError, check_grant
from controlplane.store.access_tables import AccessKeyRow, UserRow
from controlplane.store.audit import record_change
from dataplane.access import AccessKey, NewKey, Role, create_key
from dataplane.clock import WallClock, wall_clock


class UnknownKeyError(AccessError):
    """No key in use is called so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """One key as people see it."""

    key_id: str
    name: str
    role: Role
    tenant: str | None
    created_by: str
    created_at_unix_ns: int
    expires_at_unix_ns: int | None
    revoked_at_unix_ns: int | None


def add_key(
    session: Session,
    *,
    name: str,
    role: Role,
    tenant: str | None,
    expires_at_unix_ns: int | None,
    actor: str,
    reason: str = "",
    gateway: str | None = None,
    clock: WallClock = wall_clock,
) -> NewKey:
    """Make a key and keep all of it but its secret. Raises AccessError."""
    check_grant(session, role, tenant)
    now = clock()
    if expires_at_unix_ns is not None and expires_at_unix_ns <= now:
        raise AccessError("the key would have expired already; give a time to come")
    if _find_active_key(session, name) is not None:
        raise AccessError(f"there is a key called {name}; revoke it first, or choose another name")
    new = create_key()
    row = AccessKeyRow(
        key_id=new.key_id,
        name=name,
        role=role.value,
        tenant=tenant,
        gateway=gateway,
        secret_digest=new.secret_digest,
        created_by=actor,
        created_at_unix_ns=now,
        expires_at_unix_ns=expires_at_unix_ns,
    )
    session.add(row)
    session.flush()
    record_change(
        session, actor=actor, action="key.create", subject=f"key/{name}", reason=reason,
        before=None, after=_key_facts(row), clock=clock,
    )  # fmt: skip
    return new


def revoke_key(
    session: Session,
    name_or_id: str,
    *,
    actor: str,
    reason: str = "",
    clock: WallClock = wall_clock,
) -> StoredKey:
    """End a key for good.

    Raises UnknownKeyError when no key in use is called so, and AccessError for the last way in.
    """
    row = _find_active_key(session, name_or_id)
    if row is None:
        raise UnknownKeyError(f"no key in use is called {name_or_id!r}; see the list of keys")
    if [key.key_id for key in admin_keys(session)] == [row.key_id] and not num_admin_users(session):
        raise AccessError(f"{row.name} is the last admin's key; let another admin in first")
    _revoke(session, row, actor, reason, clock)
    return _read_key(row)


def revoke_all_keys(
    session: Session, *, actor: str, reason: str = "", clock: WallClock = wall_clock
) -> int:
    """End every key there is, the last admin's too; returns how many."""
    in_use = [key.key_id for key in list_keys(session) if key.revoked_at_unix_ns is None]
    for key_id in in_use:
        _revoke(session, session.get_one(AccessKeyRow, key_id), actor, reason, clock)
    return len(in_use)


def list_keys(session: Session) -> list[StoredKey]:
    """Every key that was ever made, by name, the newest first."""
    rows = session.scalars(
        select(AccessKeyRow).order_by(AccessKeyRow.name, AccessKeyRow.created_at_unix_ns.desc())
    )
    return [_read_key(row) for row in rows]


def find_key(session: Session, key_id: str) -> tuple[AccessKey, str] | None:
    """A key that was not revoked, and its name."""
    row = session.get(AccessKeyRow, key_id)
    if row is None or row.revoked_at_unix_ns is not None:
        return None
    return _access_key(row), row.name


def find_any_key(session: Session, key_id: str) -> tuple[AccessKey, StoredKey] | None:
    """A key, though it may have been revoked: what was, and never what opens anything."""
    row = session.get(AccessKeyRow, key_id)
    return None if row is None else (_access_key(row), _read_key(row))


def keys_in_use(session: Session, roles: Sequence[Role]) -> list[AccessKey]:
    """What gateways are told: keys of these roles that were not revoked, by id."""
    rows = session.scalars(
        select(AccessKeyRow)
        .where(
            AccessKeyRow.revoked_at_unix_ns.is_(None),
            AccessKeyRow.role.in_([role.value for role in roles]),
        )
        .order_by(AccessKeyRow.key_id)
    )
    return [_access_key(row) for row in rows]


def admin_keys(session: Session) -> list[AccessKey]:
    """Keys that let others in, and have not expired."""
    now = wall_clock()
    return [
        key
        for key in keys_in_use(session, [Role.ADMIN])
        if key.expires_at_unix_ns is None or key.expires_at_unix_ns > now
    ]


def num_admin_users(session: Session) -> int:
    """People who can let others in."""
    admins = (UserRow.role == Role.ADMIN.value) & UserRow.is_disabled.is_(False)
    return session.scalar(select(func.count()).select_from(UserRow).where(admins)) or 0


def _find_active_key(session: Session, name_or_id: str) -> AccessKeyRow | None:
    return session.scalars(
        select(AccessKeyRow)
        .where(
            (AccessKeyRow.name == name_or_id) | (AccessKeyRow.key_id == name_or_id),
            AccessKeyRow.revoked_at_unix_ns.is_(None),
        )
        .order_by((AccessKeyRow.name == name_or_id).desc())
        .limit(1)
    ).first()


def _revoke(session: Session, row: AccessKeyRow, actor: str, reason: str, clock: WallClock) -> None:
    before = _key_facts(row)
    row.revoked_at_unix_ns = clock()
    session.flush()
    record_change(
        session, actor=actor, action="key.revoke", subject=f"key/{row.name}", reason=reason,
        before=before, after=None, clock=clock,
    )  # fmt: skip


def _key_facts(row: AccessKeyRow) -> dict[str, Any]:
    return {
        "key_id": row.key_id,
        "role": row.role,
        "tenant": row.tenant,
        "expires_at": None if row.expires_at_unix_ns is None else _iso(row.expires_at_unix_ns),
    }


def _iso(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns // 10**9, UTC).isoformat().replace("+00:00", "Z")


def _access_key(row: AccessKeyRow) -> AccessKey:
    return AccessKey(
        key_id=row.key_id,
        secret_digest=row.secret_digest,
        role=Role(row.role),
        tenant=row.tenant,
        gateway=row.gateway,
        expires_at_unix_ns=row.expires_at_unix_ns,
    )


def _read_key(row: AccessKeyRow) -> StoredKey:
    return StoredKey(
        key_id=row.key_id,
        name=row.name,
        role=Role(row.role),
        tenant=row.tenant,
        created_by=row.created_by,
        created_at_unix_ns=row.created_at_unix_ns,
        expires_at_unix_ns=row.expires_at_unix_ns,
        revoked_at_unix_ns=row.revoked_at_unix_ns,
    )
