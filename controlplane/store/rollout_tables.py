"""Rollouts: tables of the config database. None is ever removed: who asks what ran at 02:14 asks
for the arm as well."""

from typing import Any

from sqlalchemy import JSON, BigInteger, Boolean, ForeignKey, Index, Integer, String, text
from sqlalchemy.orm import Mapped, mapped_column

from controlplane.store.tables import ConfigBase, RowId

_LIVING = text("ended_at_unix_ns IS NULL")


class RolloutRow(ConfigBase):
    """One rollout. What it moves from and to never changes, only how far it has come."""

    __tablename__ = "rollouts"
    __table_args__ = (
        Index("rollouts_by_deployment", "deployment", "number"),
        # Whoever enters a second one at the same moment fails, and looks again.
        Index(
            "rollouts_living",
            "deployment",
            unique=True,
            sqlite_where=_LIVING,
            postgresql_where=_LIVING,
        ),
    )

    number: Mapped[int] = mapped_column(RowId, primary_key=True)
    deployment: Mapped[str] = mapped_column(String(128))
    stable_model_id: Mapped[int] = mapped_column(ForeignKey("revisions.id"))
    stable_engine_config_id: Mapped[int] = mapped_column(ForeignKey("revisions.id"))
    stable_policy_id: Mapped[int] = mapped_column(ForeignKey("revisions.id"))
    candidate_model_id: Mapped[int] = mapped_column(ForeignKey("revisions.id"))
    candidate_engine_config_id: Mapped[int] = mapped_column(ForeignKey("revisions.id"))
    candidate_policy_id: Mapped[int] = mapped_column(ForeignKey("revisions.id"))
    spec: Mapped[dict[str, Any]] = mapped_column(JSON)
    """Of its deployment's document, as it was when it began."""
    state: Mapped[str] = mapped_column(String(16))
    step: Mapped[int] = mapped_column(Integer)
    step_since_unix_ns: Mapped[int] = mapped_column(BigInteger)
    is_let_through: Mapped[bool] = mapped_column(Boolean)
    reason: Mapped[str] = mapped_column(String(1024))
    """Why it is where it is."""
    created_by: Mapped[str] = mapped_column(String(128))
    created_reason: Mapped[str] = mapped_column(String(1024))
    created_at_unix_ns: Mapped[int] = mapped_column(BigInteger)
    ended_at_unix_ns: Mapped[int | None] = mapped_column(BigInteger)


class RolloutMoveRow(ConfigBase):
    """History of a rollout: each state and step that it came to, with what decided that."""

    __tablename__ = "rollout_moves"
    __table_args__ = (Index("rollout_moves_by_rollout", "rollout", "id"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    rollout: Mapped[int] = mapped_column(ForeignKey("rollouts.number"))
    state: Mapped[str] = mapped_column(String(16))
    step: Mapped[int] = mapped_column(Integer)
    actor: Mapped[str] = mapped_column(String(128))
    reason: Mapped[str] = mapped_column(String(1024))
    comparisons: Mapped[list[dict[str, Any]] | None] = mapped_column(JSON(none_as_null=True))
    """What was measured; None: nothing had been."""
    standings: Mapped[list[dict[str, Any]] | None] = mapped_column(JSON(none_as_null=True))
    """How the arms stood to the contract; None as above."""
    shadow: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """What a policy that only looked on had come to; None: none did."""
    at_unix_ns: Mapped[int] = mapped_column(BigInteger)
