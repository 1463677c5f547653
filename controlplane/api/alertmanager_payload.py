"""What Alertmanager posts to a webhook, and what of it is ours. Pure.

Ours is what is called Pilothouse... and is a page or a ticket: rules that are rendered here, and
any other that somebody names so. Labels that say nothing to us are passed over.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from controlplane.api.free_text import FreeText, check_free_text
from controlplane.slo.alert import Alert, AlertSource, AlertSubject
from controlplane.slo.alert_windows import Severity
from controlplane.slo.prometheus.alerts_of_alerting import WATCHDOG
from dataplane import names

_PREFIX = "Pilothouse"
_MAX_ALERTS = 10_000
_PROCESS_LABELS = (names.LABEL_REPLICA, names.LABEL_GATEWAY, "instance")
"""Of which process an alert is: the first of them that it has. Prometheus' own is that of whoever
told of a gateway or a replica."""
_PART_LABELS = ("rule_group", "integration", "alertmanager")
"""Of which part of it."""
_LONGEST = {"summary": 512, "description": 2048}
_MAX_URL, _MAX_NAME, _MAX_WORD, _MAX_INSTANCE = 1024, 128, 32, 512
_MAX_TRUNCATED = 2**31 - 1
_EPOCH_YEARS = range(1970, 2262)
"""That nanoseconds can be counted of."""


class WebhookAlert(BaseModel):
    """One alert of a notification."""

    model_config = ConfigDict(extra="ignore")

    status: Literal["firing", "resolved"]
    labels: dict[str, FreeText]
    annotations: dict[str, FreeText] = Field(default_factory=dict)
    startsAt: AwareDatetime  # noqa: N815  as it is written there
    endsAt: AwareDatetime  # noqa: N815
    """Of one that fires the year 1."""


class Refusal(StrEnum):
    """Why an alert is not taken."""

    FOREIGN = "foreign"
    SEVERITY = "severity"
    INVALID = "invalid"
    TRUNCATED = "truncated"


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedAlert:
    """One that is not taken."""

    name: str
    reason: Refusal
    why: str
    """With the remedy."""


def _read_or_refuse(told: Any, read: ValidatorFunctionWrapHandler) -> WebhookAlert | RefusedAlert:
    """One that cannot be read keeps no other of its delivery back: none is delivered again."""
    try:
        found: WebhookAlert = read(told)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ascii(".".join(map(str, wrong["loc"])) or "the alert")[1:-1]
        return _refused(_name_of(told), Refusal.INVALID, f"{where[:_MAX_NAME]}: {wrong['msg']}")
    return found


def _name_of(told: Any) -> str:
    """Of one that may be anything; empty where it has none that can be said."""
    labels = told.get("labels") if isinstance(told, dict) else None
    name = labels.get("alertname") if isinstance(labels, dict) else None
    try:
        return check_free_text(name) if isinstance(name, str) else ""
    except ValueError:
        return ""


ToldAlert = Annotated[WebhookAlert, WrapValidator(_read_or_refuse)]
"""Or the RefusedAlert that says why it is none."""


class WebhookPayload(BaseModel):
    """Version 4, which Alertmanager has sent since 0.9."""

    model_config = ConfigDict(extra="ignore")

    version: Literal["4"]
    alerts: list[ToldAlert] = Field(max_length=_MAX_ALERTS)
    truncatedAlerts: int = Field(default=0, ge=0, le=_MAX_TRUNCATED)  # noqa: N815
    """That Alertmanager left out, by `max_alerts`."""
    externalURL: FreeText = ""  # noqa: N815


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPayload:
    """What a notification says."""

    alerts: list[Alert] = field(default_factory=list)
    watchdog_ended_at_unix_ns: int | None = None
    """Where the watchdog is told to have ended."""
    has_watchdog: bool = False
    refused: list[RefusedAlert] = field(default_factory=list)
    num_truncated: int = 0
    """That were left out before they were sent: refused, and nobody knows which."""


def read_payload(payload: WebhookPayload) -> ReadPayload:
    """Every alert of it, in one place or another."""
    alerts: list[Alert] = []
    refused: list[RefusedAlert] = []
    watchdogs: list[WebhookAlert] = []
    tellings: list[WebhookAlert | RefusedAlert] = [*payload.alerts]
    for told in tellings:
        if isinstance(told, RefusedAlert):
            refused.append(told)
            continue
        if told.labels.get("alertname") == WATCHDOG.name:
            watchdogs.append(told)
            continue
        found = _read(told)
        if isinstance(found, Alert):
            alerts.append(found)
        else:
            refused.append(found)
    ended = [_unix_ns(each.endsAt) for each in watchdogs if each.status == "resolved"]
    is_well = any(each.status == "firing" for each in watchdogs)
    return ReadPayload(
        alerts=alerts,
        has_watchdog=bool(watchdogs),
        watchdog_ended_at_unix_ns=max(ended) if ended and not is_well else None,
        refused=refused,
        num_truncated=payload.truncatedAlerts,
    )


def _read(told: WebhookAlert) -> Alert | RefusedAlert:
    labels = told.labels
    name, severity = labels.get("alertname", ""), labels.get(names.LABEL_SEVERITY, "")
    if not name.startswith(_PREFIX):
        return _refused(name, Refusal.FOREIGN, "send here only alerts that are called Pilothouse…")
    if severity not in list(Severity):
        words = " or ".join(each.value for each in Severity)
        why = f"its severity is {severity[:32]!r}: make it {words}"
        return _refused(name, Refusal.SEVERITY, why)
    return next(_problems(told), None) or _alert(told, Severity(severity))


def _problems(told: WebhookAlert) -> Iterator[RefusedAlert]:
    labels, annotations, name = told.labels, told.annotations, told.labels["alertname"]
    bounds = {
        "alertname": _MAX_NAME,
        names.LABEL_DEPLOYMENT: _MAX_NAME,
        names.LABEL_REQUEST_CLASS: _MAX_NAME,
        names.LABEL_OBJECTIVE: _MAX_WORD,
        names.LABEL_GRADE: _MAX_WORD,
        names.LABEL_CONTRACT_REVISION: _MAX_NAME,
    }
    for word, bound in bounds.items():
        # As `_alert` takes it: an objective's revision is no label, which would make it another.
        said = (annotations if word == names.LABEL_CONTRACT_REVISION else labels).get(word, "")
        if len(said) > bound:
            why = f"its {word} is longer than {bound} characters"
            yield _refused(name, Refusal.INVALID, why)
    times = [told.startsAt] if told.status == "firing" else [told.startsAt, told.endsAt]
    if any(each.year not in _EPOCH_YEARS for each in times):
        why = f"its times lie outside of {_EPOCH_YEARS[0]} to {_EPOCH_YEARS[-1]}"
        yield _refused(name, Refusal.INVALID, why)


def _alert(told: WebhookAlert, severity: Severity) -> Alert:
    labels, annotations = told.labels, told.annotations
    return Alert(
        subject=AlertSubject(
            name=labels["alertname"],
            severity=severity,
            grade=labels.get(names.LABEL_GRADE) or None,
            deployment=labels.get(names.LABEL_DEPLOYMENT) or None,
            request_class=labels.get(names.LABEL_REQUEST_CLASS) or None,
            objective=labels.get(names.LABEL_OBJECTIVE) or None,
            instance=_instance(labels),
        ),
        source=AlertSource.ALERTMANAGER,
        summary=_text(annotations, "summary") or labels["alertname"],
        description=_text(annotations, "description"),
        started_at_unix_ns=_unix_ns(told.startsAt),
        # No earlier than it began: an end that lies before it would end nothing.
        ended_at_unix_ns=_unix_ns(max(told.startsAt, told.endsAt))
        if told.status == "resolved"
        else None,
        contract_revision=annotations.get(names.LABEL_CONTRACT_REVISION) or None,
        runbook_url=_url(annotations.get("runbook_url")),
        dashboard_url=_url(annotations.get("dashboard_url")),
    )


def _instance(labels: dict[str, str]) -> str | None:
    """None of an objective: that is of all processes together, also where a rule was federated."""
    if labels.get(names.LABEL_OBJECTIVE):
        return None
    process = [labels[each] for each in _PROCESS_LABELS if labels.get(each)][:1]
    parts = [labels[each] for each in _PART_LABELS if labels.get(each)]
    return " ".join([*process, *parts])[:_MAX_INSTANCE] or None


def _text(annotations: dict[str, str], name: str) -> str:
    text, longest = annotations.get(name, ""), _LONGEST[name]
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _url(said: str | None) -> str | None:
    """It becomes a link: nothing but the web."""
    is_link = said is not None and said.startswith(("http://", "https://"))
    return said if is_link and said is not None and len(said) <= _MAX_URL else None


def _unix_ns(at: datetime) -> int:
    return round(at.timestamp() * 10**6) * 10**3


def _refused(name: str, reason: Refusal, why: str) -> RefusedAlert:
    return RefusedAlert(name=name[:_MAX_NAME], reason=reason, why=why)
