"""Keys, users, login sessions, and the audit that nobody can rewrite."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision: str | None = "0001"

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_REFUSAL = "audit events are never changed or deleted"


def upgrade() -> None:
    """Create the tables, and let the database itself guard the audit."""
    op.create_table(
        "access_keys",
        sa.Column("key_id", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("tenant", sa.String(length=128), nullable=True),
        sa.Column("secret_digest", sa.String(length=64), nullable=False),
        sa.Column("created_by", sa.String(length=128), nullable=False),
        sa.Column("created_at_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("expires_at_unix_ns", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at_unix_ns", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("key_id"),
    )
    unrevoked = sa.text("revoked_at_unix_ns IS NULL")
    op.create_index(
        "access_keys_by_name",
        "access_keys",
        ["name"],
        unique=True,
        sqlite_where=unrevoked,
        postgresql_where=unrevoked,
    )
    op.create_table(
        "users",
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("tenant", sa.String(length=128), nullable=True),
        sa.Column("password_hash", sa.String(length=256), nullable=False),
        sa.Column("is_disabled", sa.Boolean(), nullable=False),
        sa.Column("created_by", sa.String(length=128), nullable=False),
        sa.Column("created_at_unix_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "login_sessions",
        sa.Column("token_digest", sa.String(length=64), nullable=False),
        sa.Column("user_name", sa.String(length=128), nullable=False),
        sa.Column("csrf_token", sa.String(length=64), nullable=False),
        sa.Column("created_at_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("seen_at_unix_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["user_name"], ["users.name"]),
        sa.PrimaryKeyConstraint("token_digest"),
    )
    op.create_index("login_sessions_by_user", "login_sessions", ["user_name"])
    op.create_table(
        "audit_events",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("at_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.String(length=128), nullable=False),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("subject", sa.String(length=320), nullable=False),
        sa.Column("reason", sa.String(length=1024), nullable=False),
        sa.Column("before", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("after", sa.JSON(none_as_null=True), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("audit_events_by_subject", "audit_events", ["subject", "id"])
    op.create_index("audit_events_by_actor", "audit_events", ["actor", "id"])
    if op.get_bind().dialect.name == "postgresql":
        _guard_on_postgresql()
    else:
        _guard_on_sqlite()


def downgrade() -> None:
    """Drop them with all they hold."""
    op.drop_index("audit_events_by_actor", table_name="audit_events")
    op.drop_index("audit_events_by_subject", table_name="audit_events")
    op.drop_table("audit_events")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION refuse_audit_change()")
    op.drop_index("login_sessions_by_user", table_name="login_sessions")
    op.drop_table("login_sessions")
    op.drop_table("users")
    op.drop_index("access_keys_by_name", table_name="access_keys")
    op.drop_table("access_keys")


def _guard_on_sqlite() -> None:
    for what in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER audit_events_no_{what.lower()} BEFORE {what} ON audit_events "
            f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
        )


def _guard_on_postgresql() -> None:
    op.execute(
        "CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{_REFUSAL}'; END $$"
    )
    op.execute(
        "CREATE TRIGGER audit_events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE "
        "ON audit_events FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change()"
    )
