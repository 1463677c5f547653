"""Alerts as they belong to incidents. Tables of the config database."""

from sqlalchemy import BigInteger, ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from controlplane.store.tables import ConfigBase, RowId


class IncidentAlertRow(ConfigBase):
    """What one source told last of one alert, in one incident. The deployment is the incident's."""

    __tablename__ = "incident_alerts"
    __table_args__ = (
        UniqueConstraint("incident_id", "fingerprint", "source"),
        Index("incident_alerts_by_fingerprint", "fingerprint", "source"),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    incident_id: Mapped[str] = mapped_column(ForeignKey("incidents.incident_id"))
    fingerprint: Mapped[str] = mapped_column(String(16))
    """Of what it is about, whoever told it."""
    source: Mapped[str] = mapped_column(String(32))
    """control_plane or alertmanager."""
    name: Mapped[str] = mapped_column(String(128))
    severity: Mapped[str] = mapped_column(String(16))
    grade: Mapped[str | None] = mapped_column(String(32))
    request_class: Mapped[str | None] = mapped_column(String(128))
    objective: Mapped[str | None] = mapped_column(String(32))
    instance: Mapped[str | None] = mapped_column(String(512))
    summary: Mapped[str] = mapped_column(String(512))
    description: Mapped[str] = mapped_column(String(2048))
    contract_revision: Mapped[str | None] = mapped_column(String(160))
    runbook_url: Mapped[str | None] = mapped_column(String(1024))
    dashboard_url: Mapped[str | None] = mapped_column(String(1024))
    started_at_unix_ns: Mapped[int] = mapped_column(BigInteger)
    """The last time that it began to fire."""
    told_at_unix_ns: Mapped[int] = mapped_column(BigInteger)
    """When the source told of it last."""
    ended_at_unix_ns: Mapped[int | None] = mapped_column(BigInteger)
    """None: it fires, as far as this source told."""
    num_times: Mapped[int] = mapped_column(BigInteger)
    """That it began to fire in the course of the incident."""


class AlertingHeardRow(ConfigBase):
    """When one source of alerts last said that it works, by an alert that always fires."""

    __tablename__ = "alerting_heard"

    source: Mapped[str] = mapped_column(String(32), primary_key=True)
    heard_at_unix_ns: Mapped[int] = mapped_column(BigInteger)
    ended_at_unix_ns: Mapped[int | None] = mapped_column(BigInteger)
    """When that alert ended, which it never should: its evaluator fell silent. None: it fires."""
    told_by: Mapped[str | None] = mapped_column(String(512))
    """The address that whoever told it calls its own."""
