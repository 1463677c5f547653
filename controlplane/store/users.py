"""People in the store. Every change of them is audited in the same transaction."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from controlplane.store.access_grants import AccessError, check_grant
from controlplane.store.access_keys import admin_keys, num_admin_users
from controlplane.store.access_tables import UserRow
from controlplane.store.audit import record_change
from controlplane.store.sessions import end_sessions_of
from dataplane.access import FOR_PEOPLE, Role
from dataplane.clock import WallClock, wall_clock


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """One person, without the password's hash."""

    name: str
    role: Role
    tenant: str | None
    is_disabled: bool
    created_by: str
    created_at_unix_ns: int


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
    if role not in FOR_PEOPLE:
        raise AccessError(f"{role} is for programs: make a key with that role instead")
    check_grant(session, role, tenant)
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
    if role not in FOR_PEOPLE:
        raise AccessError(f"{role} is for programs, not for people")
    check_grant(session, role, tenant)
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


def is_user(session: Session, name: str) -> bool:
    """Whether anybody is called `name`, shut out or not."""
    return session.get(UserRow, name) is not None


def has_admin(session: Session) -> bool:
    """Whether anybody can let others in: a user or an unexpired key with the role admin."""
    return num_admin_users(session) > 0 or bool(admin_keys(session))


def _is_last_admin(session: Session, row: UserRow) -> bool:
    is_admin = row.role == Role.ADMIN.value and not row.is_disabled
    return is_admin and num_admin_users(session) == 1 and not admin_keys(session)


def _get_user(session: Session, name: str) -> UserRow:
    row = session.get(UserRow, name)
    if row is None:
        raise AccessError(f"there is no user {name!r}; see the list of users")
    return row


def _user_facts(row: UserRow) -> dict[str, Any]:
    return {"role": row.role, "tenant": row.tenant, "is_disabled": row.is_disabled}


def _read_user(row: UserRow) -> User:
    return User(
        name=row.name,
        role=Role(row.role),
        tenant=row.tenant,
        is_disabled=row.is_disabled,
        created_by=row.created_by,
        created_at_unix_ns=row.created_at_unix_ns,
    )
