"""Who may do what, and what was changed: tables of the config database.

No secret is in them: of a key and of a session only a digest, of a password only its hash.
"""

from typing import Any

from sqlalchemy import JSON, BigInteger, Boolean, ForeignKey, Index, String, text
from sqlalchemy.orm import Mapped, mapped_column

from controlplane.store.tables import ConfigBase, RowId


class AccessKeyRow(ConfigBase):
    """One key of a program: a client, a gateway, a script."""

    __tablename__ = "access_keys"
    __table_args__ = (
        # A name is free again once its key was revoked: that is how a key is rotated.
        Index(
            "access_keys_by_name",
            "name",
            unique=True,
            sqlite_where=text("revoked_at_unix_ns IS NULL"),
            postgresql_where=text("revoked_at_unix_ns IS NULL"),
        ),
    )

    key_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    name: Mapped[str] = mapped_column(String(128))
    role: Mapped[str] = mapped_column(String(16))
    tenant: Mapped[str | None] = mapped_column(String(128))
    gateway: Mapped[str | None] = mapped_column(String(128))
    """Of a control plane's own key: the only gateway it opens."""
    secret_digest: Mapped[str] = mapped_column(String(64))
    """SHA-256 of the secret's 256 random bits, in hex."""
    created_by: Mapped[str] = mapped_column(String(128))
    created_at_unix_ns: Mapped[int] = mapped_column(BigInteger)
    expires_at_unix_ns: Mapped[int | None] = mapped_column(BigInteger)
    revoked_at_unix_ns: Mapped[int | None] = mapped_column(BigInteger)


class UserRow(ConfigBase):
    """One person who logs in to the console."""

    __tablename__ = "users"

    name: Mapped[str] = mapped_column(String(128), primary_key=True)
    role: Mapped[str] = mapped_column(String(16))
    tenant: Mapped[str | None] = mapped_column(String(128))
    password_hash: Mapped[str] = mapped_column(String(256))
    """Argon2id, with its parameters and salt."""
    is_disabled: Mapped[bool] = mapped_column(Boolean)
    created_by: Mapped[str] = mapped_column(String(128))
    created_at_unix_ns: Mapped[int] = mapped_column(BigInteger)


class LoginSessionRow(ConfigBase):
    """One browser that is logged in."""

    __tablename__ = "login_sessions"
    __table_args__ = (Index("login_sessions_by_user", "user_name"),)

    token_digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    user_name: Mapped[str] = mapped_column(ForeignKey("users.name"))
    csrf_token: Mapped[str] = mapped_column(String(64))
    created_at_unix_ns: Mapped[int] = mapped_column(BigInteger)
    seen_at_unix_ns: Mapped[int] = mapped_column(BigInteger)
    """To the minute: what an idle session is told by."""


class AuditRow(ConfigBase):
    """One change. The database itself refuses to change or delete it (see its migration)."""

    __tablename__ = "audit_events"
    __table_args__ = (
        Index("audit_events_by_subject", "subject", "id"),
        Index("audit_events_by_actor", "actor", "id"),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    at_unix_ns: Mapped[int] = mapped_column(BigInteger)
    actor: Mapped[str] = mapped_column(String(128))
    action: Mapped[str] = mapped_column(String(64))
    subject: Mapped[str] = mapped_column(String(320))
    reason: Mapped[str] = mapped_column(String(1024))
    before: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    after: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
