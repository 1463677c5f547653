"""The table of what people were told of alerts."""

from typing import Any

from sqlalchemy import JSON, BigInteger, String
from sqlalchemy.orm import Mapped, mapped_column

from controlplane.store.tables import ConfigBase


class ToldAlertsRow(ConfigBase):
    """What one notifier told last of one deployment, as long as any of it fires."""

    __tablename__ = "told_alerts"

    notifier: Mapped[str] = mapped_column(String(64), primary_key=True)
    deployment: Mapped[str] = mapped_column(String(128), primary_key=True)
    """Empty: of the installation itself."""
    told_at_unix_ns: Mapped[int] = mapped_column(BigInteger)
    """0: it was being told, and whether it arrived is not known."""
    alerts: Mapped[list[dict[str, Any]]] = mapped_column(JSON)
    """In the form of `controlplane.slo.alert_json`."""
