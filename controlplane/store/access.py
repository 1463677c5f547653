"""Keys and users in the store. Every change of them is audited in the same transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from controlplane.specs.kind import Kind
from controlplane.store.access_tables import AccessKeyRow, UserRow
from controlplane.store.audit import record_change
from controlplane.store.revisions import find_latest
from controlplane.store.sessions import end_sessions_of
from dataplane.access import AccessKey, NewKey, Role, create_key
from dataplane.clock import WallClock, wall_clock

# A tenant that every installation has, with no document of its own.
_BUILT_IN_TENANTS = ("default",)
_NEEDS_TENANT = frozenset({Role.CLIENT})
_TAKES_TENANT = frozenset({Role.CLIENT, Role.VIEWER})


class AccessError(ValueError):
    """A change of keys or users that cannot be made; the message says why and what to do."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """One person, without the password's hash."""

    name: str
    role: Role
    tenant: str | None
    is_disabled: bool
    created_by: str
    created_at_unix_ns: int


def add_key(
    session: Session,
    *,
    name: str,
    role: Role,
    tenant: str | None,
    expires_at_unix_ns: int | None,
    actor: str,
    reason: str = "",
    clock: WallClock = wall_clock,
) -> NewKey:
    """Make a key and keep all of it but its secret. Raises AccessError."""
    _check_grant(session, role, tenant)
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
    """End a key for good. Raises AccessError when no key in use is called so."""
    row = _find_active_key(session, name_or_id)
    if row is None:
        raise AccessError(f"no key in use is called {name_or_id!r}; see the list of keys")
    before = _key_facts(row)
    row.revoked_at_unix_ns = clock()
    session.flush()
    record_change(
        session, actor=actor, action="key.revoke", subject=f"key/{row.name}", reason=reason,
        before=before, after=None, clock=clock,
    )  # fmt: skip
    return _read_key(row)


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


def add_user(
    session: Session,
    *,
    name: str,
    role: Role,
    tenant: str | None,
    password_hash: str,
    actor: str,
    reason: str = "",
    clock: WallClock = wall_clock,
) -> User:
    """Raises AccessError."""
    if role in (Role.CLIENT, Role.GATEWAY):
        raise AccessError(f"{role} is for programs: make a key with that role instead")
    _check_grant(session, role, tenant)
    if session.get(UserRow, name) is not None:
        raise AccessError(f"there is a user called {name}; set a new password or enable them")
    row = UserRow(
        name=name,
        role=role.value,
        tenant=tenant,
        password_hash=password_hash,
        is_disabled=False,
        created_by=actor,
        created_at_unix_ns=clock(),
    )
    session.add(row)
    session.flush()
    record_change(
        session, actor=actor, action="user.create", subject=f"user/{name}", reason=reason,
        before=None, after=_user_facts(row), clock=clock,
    )  # fmt: skip
    return _read_user(row)


def set_password(
    session: Session, name: str, password_hash: str, *, actor: str, reason: str = ""
) -> None:
    """Replace a password and end the user's sessions. Raises AccessError."""
    row = _get_user(session, name)
    row.password_hash = password_hash
    end_sessions_of(session, name)
    facts = _user_facts(row)
    record_change(
        session, actor=actor, action="user.password", subject=f"user/{name}", reason=reason,
        before=facts, after=facts,
    )  # fmt: skip


def set_disabled(
    session: Session, name: str, is_disabled: bool, *, actor: str, reason: str = ""
) -> None:
    """Shut a user out, or let them in again; their sessions end. Raises AccessError."""
    row = _get_user(session, name)
    before = _user_facts(row)
    if is_disabled and not row.is_disabled and _is_last_admin(session, row):
        raise AccessError(f"{name} is the last admin; make another one first")
    row.is_disabled = is_disabled
    end_sessions_of(session, name)
    record_change(
        session, actor=actor, action="user.disable" if is_disabled else "user.enable",
        subject=f"user/{name}", reason=reason, before=before, after=_user_facts(row),
    )  # fmt: skip


def set_role(
    session: Session,
    name: str,
    role: Role,
    tenant: str | None,
    *,
    actor: str,
    reason: str = "",
) -> None:
    """Raises AccessError."""
    row = _get_user(session, name)
    if role in (Role.CLIENT, Role.GATEWAY):
        raise AccessError(f"{role} is for programs, not for people")
    _check_grant(session, role, tenant)
    if role is not Role.ADMIN and _is_last_admin(session, row):
        raise AccessError(f"{name} is the last admin; make another one first")
    before = _user_facts(row)
    row.role, row.tenant = role.value, tenant
    end_sessions_of(session, name)
    record_change(
        session, actor=actor, action="user.role", subject=f"user/{name}", reason=reason,
        before=before, after=_user_facts(row),
    )  # fmt: skip


def list_users(session: Session) -> list[User]:
    """Everybody, by name."""
    return [_read_user(row) for row in session.scalars(select(UserRow).order_by(UserRow.name))]


def find_user(session: Session, name: str) -> tuple[User, str] | None:
    """A user who may log in, and the password's hash."""
    row = session.get(UserRow, name)
    return None if row is None or row.is_disabled else (_read_user(row), row.password_hash)


def has_admin(session: Session) -> bool:
    """Whether anybody can let others in: a user or an unexpired key with the role admin."""
    return _num_admin_users(session) > 0 or bool(_admin_keys(session))


def _admin_keys(session: Session) -> list[AccessKey]:
    now = wall_clock()
    return [
        key
        for key in keys_in_use(session, [Role.ADMIN])
        if key.expires_at_unix_ns is None or key.expires_at_unix_ns > now
    ]


def _num_admin_users(session: Session) -> int:
    admins = (UserRow.role == Role.ADMIN.value) & UserRow.is_disabled.is_(False)
    return session.scalar(select(func.count()).select_from(UserRow).where(admins)) or 0


def _is_last_admin(session: Session, row: UserRow) -> bool:
    is_admin = row.role == Role.ADMIN.value and not row.is_disabled
    return is_admin and _num_admin_users(session) == 1 and not _admin_keys(session)


def _check_grant(session: Session, role: Role, tenant: str | None) -> None:
    if tenant is None:
        if role in _NEEDS_TENANT:
            raise AccessError(f"a key with role {role} belongs to a tenant; name it")
        return
    if role not in _TAKES_TENANT:
        raise AccessError(
            f"role {role} cannot be bound to a tenant; {' and '.join(sorted(_TAKES_TENANT))} can"
        )
    if tenant not in _BUILT_IN_TENANTS and find_latest(session, Kind.TENANT, tenant) is None:
        raise AccessError(f"there is no Tenant {tenant}; apply its document first")


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


def _get_user(session: Session, name: str) -> UserRow:
    row = session.get(UserRow, name)
    if row is None:
        raise AccessError(f"there is no user {name!r}; see the list of users")
    return row


def _key_facts(row: AccessKeyRow) -> dict[str, Any]:
    return {
        "key_id": row.key_id,
        "role": row.role,
        "tenant": row.tenant,
        "expires_at": None if row.expires_at_unix_ns is None else _iso(row.expires_at_unix_ns),
    }


def _iso(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns // 10**9, UTC).isoformat().replace("+00:00", "Z")


def _user_facts(row: UserRow) -> dict[str, Any]:
    return {"role": row.role, "tenant": row.tenant, "is_disabled": row.is_disabled}


def _access_key(row: AccessKeyRow) -> AccessKey:
    return AccessKey(
        key_id=row.key_id,
        secret_digest=row.secret_digest,
        role=Role(row.role),
        tenant=row.tenant,
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


def _read_user(row: UserRow) -> User:
    return User(
        name=row.name,
        role=Role(row.role),
        tenant=row.tenant,
        is_disabled=row.is_disabled,
        created_by=row.created_by,
        created_at_unix_ns=row.created_at_unix_ns,
    )
