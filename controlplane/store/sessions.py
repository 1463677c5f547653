"""Browsers that are logged in. The token is in the cookie alone; here is its SHA-256."""

import hashlib
import re
import secrets
from dataclasses import dataclass

from sqlalchemy import delete
from sqlalchemy.orm import Session

from controlplane.store.access_tables import LoginSessionRow, UserRow
from dataplane.access import Role

_SECOND = 1_000_000_000
IDLE_NS = 12 * 3600 * _SECOND
"""A session that nobody used for so long has ended."""
LIFETIME_NS = 7 * 86400 * _SECOND
"""However busy, a session ends after so long."""
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
_SEEN_STEP_NS = 60 * _SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """A session that was just begun."""

    token: str
    """For the cookie, and nowhere else."""
    csrf_token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSession:
    """A session in force, and whose it is."""

    user_name: str
    role: Role
    tenant: str | None
    csrf_token: str
    needs_touch: bool
    """It was last seen more than a minute ago."""


def is_token(text: str) -> bool:
    """Whether `text` is shaped like a session's token."""
    return _TOKEN.fullmatch(text) is not None


def begin_session(session: Session, user_name: str, now_unix_ns: int) -> NewSession:
    """Begin one, and clear away those that have ended by themselves."""
    session.execute(
        delete(LoginSessionRow).where(
            (LoginSessionRow.seen_at_unix_ns <= now_unix_ns - IDLE_NS)
            | (LoginSessionRow.created_at_unix_ns <= now_unix_ns - LIFETIME_NS)
        )
    )
    new = NewSession(token=secrets.token_urlsafe(32), csrf_token=secrets.token_urlsafe(32))
    session.add(
        LoginSessionRow(
            token_digest=_digest(new.token),
            user_name=user_name,
            csrf_token=new.csrf_token,
            created_at_unix_ns=now_unix_ns,
            seen_at_unix_ns=now_unix_ns,
        )
    )
    session.flush()
    return new


def find_session(session: Session, token: str, now_unix_ns: int) -> LoginSession | None:
    """The session that `token` belongs to, None when it has ended or its user is shut out."""
    row = session.get(LoginSessionRow, _digest(token))
    if row is None or not _is_in_force(row, now_unix_ns):
        return None
    user = session.get(UserRow, row.user_name)
    if user is None or user.is_disabled:
        return None
    return LoginSession(
        user_name=user.name,
        role=Role(user.role),
        tenant=user.tenant,
        csrf_token=row.csrf_token,
        needs_touch=now_unix_ns - row.seen_at_unix_ns > _SEEN_STEP_NS,
    )


def touch_session(session: Session, token: str, now_unix_ns: int) -> None:
    """It was used just now."""
    row = session.get(LoginSessionRow, _digest(token))
    if row is not None:
        row.seen_at_unix_ns = now_unix_ns


def end_session(session: Session, token: str) -> None:
    """Log one browser out. An unknown token is no error."""
    session.execute(delete(LoginSessionRow).where(LoginSessionRow.token_digest == _digest(token)))


def end_sessions_of(session: Session, user_name: str) -> None:
    """Log a user out everywhere."""
    session.execute(delete(LoginSessionRow).where(LoginSessionRow.user_name == user_name))


def _is_in_force(row: LoginSessionRow, now_unix_ns: int) -> bool:
    return (
        now_unix_ns - row.seen_at_unix_ns < IDLE_NS
        and now_unix_ns - row.created_at_unix_ns < LIFETIME_NS
    )


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
