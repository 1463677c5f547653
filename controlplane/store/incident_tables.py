"""Incidents: what was found wrong with a deployment, since when, and what became of it. Tables of
the config database: they are few, and are kept as long as the history that they explain."""

from typing import Any

from sqlalchemy import JSON, BigInteger, ForeignKey, Index, Integer, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from controlplane.store.tables import ConfigBase, RowId


class IncidentRow(ConfigBase):
    """One trouble of one deployment, from when it was found until it was gone."""

    __tablename__ = "incidents"
    __table_args__ = (
        Index("incidents_by_deployment", "deployment", "state", "last_seen_at_unix_ns"),
        Index("incidents_by_time", "opened_at_unix_ns"),
    )

    incident_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    deployment: Mapped[str] = mapped_column(String(128))
    """Empty: of the installation itself."""
    state: Mapped[str] = mapped_column(String(16))
    """open or resolved."""
    mechanism: Mapped[str] = mapped_column(String(64))
    """Of the surest finding so far; empty, as its confidence: alerts alone tell of it."""
    confidence: Mapped[str] = mapped_column(String(16))
    opened_at_unix_ns: Mapped[int] = mapped_column(BigInteger)
    since_unix_ns: Mapped[int | None] = mapped_column(BigInteger)
    """When the signal that tells it changed its level, where that could be seen: before it was
    opened for the first time."""
    last_seen_at_unix_ns: Mapped[int] = mapped_column(BigInteger)
    resolved_at_unix_ns: Mapped[int | None] = mapped_column(BigInteger)
    num_reopened: Mapped[int] = mapped_column(Integer)
    acknowledged_at_unix_ns: Mapped[int | None] = mapped_column(BigInteger)
    acknowledged_by: Mapped[str | None] = mapped_column(String(128))


class IncidentFindingRow(ConfigBase):
    """What one rule found in the course of an incident: its last word, and how often it said so."""

    __tablename__ = "incident_findings"
    __table_args__ = (UniqueConstraint("incident_id", "rule_id"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    incident_id: Mapped[str] = mapped_column(ForeignKey("incidents.incident_id"))
    rule_id: Mapped[str] = mapped_column(String(64))
    mechanism: Mapped[str] = mapped_column(String(64))
    confidence: Mapped[str] = mapped_column(String(16))
    first_seen_at_unix_ns: Mapped[int] = mapped_column(BigInteger)
    last_seen_at_unix_ns: Mapped[int] = mapped_column(BigInteger)
    num_seen: Mapped[int] = mapped_column(BigInteger)
    finding: Mapped[dict[str, Any]] = mapped_column(JSON)
    """In the form of `controlplane.diagnosis.json_form`, as of the last time."""


class IncidentEventRow(ConfigBase):
    """What happened to an incident, in order."""

    __tablename__ = "incident_events"
    __table_args__ = (Index("incident_events_by_incident", "incident_id", "at_unix_ns"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    incident_id: Mapped[str] = mapped_column(ForeignKey("incidents.incident_id"))
    at_unix_ns: Mapped[int] = mapped_column(BigInteger)
    kind: Mapped[str] = mapped_column(String(16))
    """opened, found, changed, alerted, ended, acknowledged, note, resolved or reopened."""
    actor: Mapped[str] = mapped_column(String(128))
    """`pilothouse`, or who did it."""
    what: Mapped[str] = mapped_column(String(1024))
    since_unix_ns: Mapped[int | None] = mapped_column(BigInteger)
    """Of opened and reopened: when the signal that tells it changed its level, where that could be
    seen."""
