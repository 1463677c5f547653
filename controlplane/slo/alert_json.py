"""An alert as JSON: for what is kept, and for who is told."""

import dataclasses
from typing import Any

from controlplane.slo.alert import Alert, AlertSource, AlertSubject
from controlplane.slo.alert_windows import Severity


def alert_as_json(alert: Alert) -> dict[str, Any]:
    """All fields flat, those of the subject among them, and its fingerprint."""
    fields = dataclasses.asdict(alert)
    subject = fields.pop("subject")
    return {"fingerprint": alert.subject.fingerprint, **subject, **fields}


def alert_from_json(told: dict[str, Any]) -> Alert:
    """What `alert_as_json` made, in releases of before too, which kept no team. Raises KeyError or
    ValueError for what it did not make."""
    told = {"team": None, **told}
    subject = {field.name: told[field.name] for field in dataclasses.fields(AlertSubject)}
    rest = {field.name: told[field.name] for field in dataclasses.fields(Alert)[1:]}
    return Alert(
        subject=AlertSubject(**{**subject, "severity": Severity(subject["severity"])}),
        **{**rest, "source": AlertSource(rest["source"])},
    )
