"""Silences and maintenance windows: a table of the config database. None is ever removed: what was
kept back, and why, is asked for after an incident as well."""

from sqlalchemy import BigInteger, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from controlplane.store.tables import ConfigBase


class SilenceRow(ConfigBase):
    """One of either kind: planned, in force or over. It is never changed but for its end."""

    __tablename__ = "silences"
    __table_args__ = (
        Index("silences_by_end", "ended_at_unix_ns", "until_unix_ns"),
        Index("silences_by_time", "created_at_unix_ns"),
    )

    silence_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    """silence or maintenance."""
    deployment: Mapped[str | None] = mapped_column(String(128))
    """None, here and below: any."""
    request_class: Mapped[str | None] = mapped_column(String(128))
    objective: Mapped[str | None] = mapped_column(String(32))
    severity: Mapped[str | None] = mapped_column(String(16))
    reason: Mapped[str] = mapped_column(String(1024))
    created_by: Mapped[str] = mapped_column(String(128))
    created_at_unix_ns: Mapped[int] = mapped_column(BigInteger)
    from_unix_ns: Mapped[int] = mapped_column(BigInteger)
    until_unix_ns: Mapped[int] = mapped_column(BigInteger)
    ended_at_unix_ns: Mapped[int | None] = mapped_column(BigInteger)
    """When somebody ended it early."""
    ended_by: Mapped[str | None] = mapped_column(String(128))
    end_reason: Mapped[str | None] = mapped_column(String(1024))
